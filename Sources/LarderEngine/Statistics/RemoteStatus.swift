// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The state of a store's link to a remote server, and what the processes of the host have counted.
public struct RemoteStatus: Sendable, Hashable {
  /// The server and the prefix of its keys, without a password.
  public let server: String
  /// The process with the link, or `nil` while there is none.
  public let holder: Int32?
  /// The time since all changes of the server are known to have been applied to the store; `nil` if that is
  /// not known since the last start of the system.
  public let age: Duration?
  /// The last time between a question to the server and its answer.
  public let roundTrip: Duration
  /// The connections that have fed the store, in the generation of the store. Each one makes the values that
  /// the host has be verified again.
  public let connections: UInt64
  /// The keys that the server has named because they changed.
  public let invalidations: UInt64
  /// The reads that the server has answered with a value.
  public let fetchedHits: UInt64
  /// The reads that the server has answered with none.
  public let fetchedMisses: UInt64
  /// The reads whose value the host had, and the server has confirmed.
  public let revalidations: UInt64
  /// The reads that got a value of the host because the server could not be reached.
  public let staleHits: UInt64
  /// The values that were written to the server.
  public let writes: UInt64
  /// The operations and connections that failed.
  public let failures: UInt64
}

extension SharedStore {
  /// Returns the links of the store to remote servers.
  ///
  /// ```swift
  /// for remote in try store.remotes() {
  ///   print(remote.server, remote.holder ?? 0, remote.age ?? .seconds(-1))
  /// }
  /// ```
  ///
  /// The values are those of all processes of the host, since the generation of the store began. They are
  /// read one after the other while other processes change them.
  ///
  /// - Throws: ``StoreError`` if the store is closed.
  /// - Complexity: O(1).
  public func remotes() throws -> [RemoteStatus] {
    try openCore("stat").generation().table.remoteStatuses
  }
}

extension SharedTable {
  /// The states of all links.
  var remoteStatuses: [RemoteStatus] {
    remoteRecords.map { record in
      let age = record.age
      return RemoteStatus(
        server: record.text, holder: record.link == 0 ? nil : record.pid,
        age: age < .seconds(1 << 29) ? age : nil, roundTrip: record.roundTrip,
        connections: record.value(of: .connections),
        invalidations: record.value(of: .invalidations),
        fetchedHits: record.value(of: .fetchedHits),
        fetchedMisses: record.value(of: .fetchedMisses),
        revalidations: record.value(of: .revalidations), staleHits: record.value(of: .staleHits),
        writes: record.value(of: .writes), failures: record.value(of: .failures))
    }
  }
}
