// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The name of a server and of a prefix, as the table has it.
@usableFromInline package struct RemoteName: Sendable, Hashable {
  package let hash: UInt64

  private static let transitBit: UInt64 = 1 << 63

  package init(_ text: String) {
    hash = max(XXH64.hash(Array(text.utf8)) & ~Self.transitBit, 1)
  }

  /// Returns the name of a record that is no server's, while a process takes it.
  static func transit() -> UInt64 { UInt64.random(in: 0..<transitBit) | transitBit }

  static func isTransit(_ name: UInt64) -> Bool { name & transitBit != 0 }
}

/// The longest time since a value is known to have been current.
@usableFromInline package struct StalenessLimit: Sendable, Hashable {
  let nanoseconds: Int64
  let milliseconds: Int64
  /// The coarse clock may lag by this time.
  private static var lag: Int64 { 10_000_000 }

  package init(_ duration: Duration) {
    nanoseconds = max(Int64(Clocks.nanoseconds(of: duration)) - Self.lag, 0)
    milliseconds = Int64(Clocks.nanoseconds(of: duration) / 1_000_000)
  }
}

/// The events that the processes of a host count for a server.
package enum RemoteCounter: Int, CaseIterable, Sendable {
  case connections, invalidations, fetchedHits, fetchedMisses, revalidations, staleHits, writes,
    failures
}

/// The servers from which replies come.
package struct RemoteTopology: Sendable, Hashable {
  /// One server, which a name or sentinels lead to.
  package static let single = RemoteTopology(servers: 0, changes: 0)

  /// The set of the servers, as a number.
  package let servers: UInt64
  /// Advanced for each change of the set, and for each reply of a server outside it.
  package let changes: UInt64

  package init(servers: UInt64, changes: UInt64) {
    self.servers = servers
    self.changes = changes
  }
}
