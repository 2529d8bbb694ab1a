// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCache
package import LarderEngine
internal import Synchronization

/// Properties that persist, seen alike by every process that has them open.
///
/// ```swift
/// extension DefaultsKeys {
///   static let volume = DefaultsKey<Double>("volume", default: 0.5)
/// }
///
/// let defaults = try Defaults(suiteName: "com.example.player")
/// defaults[.volume] = 0.8            // on the disk, and seen by every other process, from here on
/// print(defaults[.volume])
/// ```
///
/// A suite is a durable store below the user's data directory. A write is one commit: when it
/// returns it is on the disk, and the next read in any process sees it. Two processes that write
/// different keys both keep theirs. A read is served from memory while nobody has written the key.
///
/// What does not throw (subscripts, ``get(key:)``, ``set(_:key:)``) tells its errors to
/// ``onError(_:)``; ``value(_:forKey:)`` and `setValue(_:forKey:)` throw them. A value of another
/// type than is asked for is never overwritten by a read with a default.
///
/// Keys are any text. Two texts that differ only in Unicode normalisation are two keys.
public final class Defaults: Sendable {
  /// The name of the suite; the last component of the path for a suite opened by its path.
  public let suiteName: String
  /// The directory of the suite's store.
  public let path: String

  let state: Result<DefaultsStore, any Error>
  @usableFromInline let tiers: DefaultsMemoryTiers
  let watches = KeyWatches()
  private let errorHandler = Mutex<(@Sendable (any Error) -> Void)?>(nil)

  /// The suite of this program: named by its bundle identifier, or by its executable.
  ///
  /// If its store cannot be opened, everything that throws throws the reason.
  public static let shared = Defaults()

  /// Another handle of the suite of ``shared``.
  public convenience init() {
    let bundle = Bundle.main.bundleIdentifier
    let name = DefaultsSuite.sanitizedName(bundle ?? ProcessInfo.processInfo.processName)
    let path = DefaultsSuite.directory + "/" + name
    self.init(name: name, path: path, state: Result { try DefaultsStore(at: path) })
  }

  /// Opens a suite, creating it if there is none.
  ///
  /// - Parameter suiteName: One file name; `nil` for the suite of ``shared``.
  /// - Throws: ``DefaultsError/Code/invalidSuiteName`` for a name that is empty or leads elsewhere;
  ///   `StoreError` when the store cannot be opened.
  public convenience init(suiteName: String?) throws {
    guard let suiteName else {
      self.init()
      _ = try state.get()
      return
    }
    let path = try DefaultsSuite.path(of: suiteName)
    self.init(name: suiteName, path: path, state: .success(try DefaultsStore(at: path)))
  }

  /// Opens a suite in a directory of one's own, creating it if there is none: for tests, and for
  /// what belongs to a document.
  public convenience init(at path: String) throws {
    let store = try DefaultsStore(at: path)
    let path = store.store.path
    let name = path.split(separator: "/").last.map(String.init) ?? path
    self.init(name: name, path: path, state: .success(store))
  }

  private init(name: String, path: String, state: Result<DefaultsStore, any Error>) {
    suiteName = name
    self.path = path
    self.state = state
    tiers = DefaultsMemoryTiers(core: try? state.get().store.core)
  }

  deinit {
    watches.end()
    try? state.get().store.close()
  }

  /// Closes the handle. Idempotent; whatever is asked of it later fails with the code `closed`.
  public func close() {
    watches.end()
    try? state.get().store.close()
    tiers.removeAll()
  }

  /// Where errors go that have no caller to go to: of subscripts, `get` and `set`.
  ///
  /// The closure is called on the thread the error happens on, and replaces the one before.
  public func onError(_ handler: (@Sendable (any Error) -> Void)?) {
    errorHandler.withLock { $0 = handler }
  }

  @usableFromInline func report(_ error: any Error) {
    errorHandler.withLock { $0 }?(error)
  }

  // MARK: The suite as a whole

  /// Whether a key has a value of whatever type.
  public func has(_ key: String) throws -> Bool { try state.get().contains(key) }

  /// The keys that have values, in alphabetic order.
  ///
  /// - Complexity: O(*n* log *n*) for *n* keys of the suite.
  public func keys() throws -> [String] { try state.get().keys() }

  /// Removes every value, for every process.
  public func removeAll() throws { try state.get().removeAll() }

  /// What a value is stored as, for tools that know no type; `nil`: there is none.
  package func storedValue(forKey key: String) throws -> StoredValue? {
    try state.get().entry(key)
  }

  /// Stores what a tool has encoded itself.
  package func setStored(codec: UInt16, payload: [UInt8], forKey key: String) throws {
    try state.get().put(DefaultsContent(codec: codec, payload: payload), key)
  }
}
