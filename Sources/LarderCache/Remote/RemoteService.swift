// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

/// The operations of a remote server. `RedisLink` has the only implementation; another server needs another.
package protocol RemoteService: AnyObject, Sendable {
  /// The server and the prefix of its keys, without a password: equal for all processes that share them.
  var name: String { get }
  /// Connects the store with the server, until the store or the link is closed.
  func attach(to store: SharedStore)
  /// Ends the connections of all stores.
  func detach()
  /// The servers from which replies come.
  var topology: RemoteTopology { get }
  /// Finds out which servers there are, because the link of the host has others.
  func refreshTopology()
  /// Whether an error means that the server could not be asked.
  func isLoss(_ error: any Error) -> Bool
  /// Whether an error means that no server of the link can be expected to answer a request now.
  func isUnanswered(_ error: any Error) -> Bool
  /// Whether an error means that nothing was sent.
  func isUnsent(_ error: any Error) -> Bool

  func read(_ keys: [RemoteKey]) async throws -> [RemoteEntry?]
  /// Returns the versions of values, and their remaining lifetimes.
  func versions(of keys: [RemoteKey]) async throws -> [RemoteVersion?]
  func write(
    _ writes: [RemoteWrite], _ acknowledgement: RemoteOptions.Acknowledgement
  ) async throws
  /// Removes keys, and returns the number of those that the server had.
  func remove(
    _ keys: [RemoteKey], _ acknowledgement: RemoteOptions.Acknowledgement
  ) async throws -> Int
  func removeAll(in namespace: String) async throws
  func removeAll(tagged tag: String, in namespace: String) async throws
  /// Writes or removes a key if its value has a version; zero means that it has no value.
  func replace(
    _ key: RemoteKey, ifVersion version: UInt64, with write: RemoteWrite?
  ) async throws -> Bool

  /// Returns what the values with tags have to name from now on.
  func tokens(of tags: [String], in namespace: String) async throws -> RemoteTokens

  /// Claims the computation of a key, unless another host has claimed it.
  func claim(_ key: RemoteKey, token: UInt64, for time: Duration) async throws -> Bool
  /// Renews a claim, if it is still the key's.
  func renew(_ key: RemoteKey, token: UInt64, for time: Duration) async throws -> Bool
  /// Ends a claim with a result, if it is still the key's: no host has written the key since.
  func complete(_ key: RemoteKey, token: UInt64, _ write: RemoteWrite?) async throws -> Bool
}

/// A key with its namespace. Namespaces of equal bytes are the same, as in a store: two Unicode forms of a name are two
/// names.
package struct RemoteKey: Sendable, Hashable {
  package let namespace: String
  package let key: EncodedKey

  package init(_ namespace: String, _ key: EncodedKey) {
    self.namespace = namespace
    self.key = key
  }

  package static func == (one: RemoteKey, other: RemoteKey) -> Bool {
    one.key == other.key && one.namespace.utf8.elementsEqual(other.namespace.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    // Of a part of the equal ones only: a namespace is shared by many keys.
    hasher.combine(key)
    hasher.combine(namespace.utf8.count)
  }
}

/// The version of a value on the server: 16 bits for the host that wrote it, and 48 random ones.
package struct RemoteVersion: Sendable, Hashable {
  private static let hostShift: UInt64 = 48

  /// Returns a new version for a value that a host writes.
  static func next(in generation: Generation) -> UInt64 {
    host(generation) << hostShift | UInt64.random(in: 1..<1 << hostShift)
  }

  /// Returns whether a host has probably written a version; another host may have the same number.
  package static func isOwn(_ version: UInt64, in generation: Generation) -> Bool {
    version >> hostShift == host(generation)
  }

  private static func host(_ generation: Generation) -> UInt64 {
    let identity = generation.meta.storeID
    return (identity.0 ^ identity.1) & 0xFFFF
  }

  package let version: UInt64
  /// The remaining lifetime in milliseconds, or `nil` if it has no end.
  package let lifetime: Int64?

  package init(_ version: UInt64, lifetime: Int64?) {
    self.version = version
    self.lifetime = lifetime
  }
}

/// A value on the server, or the record that a key has none.
package struct RemoteEntry: Sendable, Hashable {
  package var version: RemoteVersion
  package let codec: UInt16
  package let payload: [UInt8]
  package let isAbsent: Bool
  package let tags: [String]

  package init(
    _ version: RemoteVersion, codec: UInt16, payload: [UInt8], isAbsent: Bool, tags: [String]
  ) {
    self.version = version
    self.codec = codec
    self.payload = payload
    self.isAbsent = isAbsent
    self.tags = tags
  }
}

/// The bytes by which the server knows tags until they are removed, by the tags' bytes.
package typealias RemoteTokens = [[UInt8]: [UInt8]]

/// An entry to be written under a key.
package struct RemoteWrite: Sendable, Hashable {
  package let key: RemoteKey
  package let entry: RemoteEntry
  /// The bytes of tags before the value was computed; those of other tags are read before the write.
  package var tokens: RemoteTokens = [:]

  package init(_ key: RemoteKey, _ entry: RemoteEntry) {
    self.key = key
    self.entry = entry
  }
}
