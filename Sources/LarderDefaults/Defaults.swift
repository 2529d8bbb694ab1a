// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCache
package import LarderEngine
internal import Synchronization

/// Persistent properties that several processes share.
///
/// ```swift
/// extension DefaultsKeys {
///   static let volume = DefaultsKey<Double>("volume", default: 0.5)
/// }
///
/// let defaults = try Defaults(suiteName: "com.example.player")
/// defaults[.volume] = 0.8            // on disk, and visible to every process, from here
/// print(defaults[.volume])
/// ```
///
/// A suite is a durable store below the user's data directory. A write is one commit: when it
/// returns, the value is on disk, and the next read in any process sees it. Concurrent writes of
/// different keys by several processes all take effect. A read is served from memory until a process
/// writes the key.
///
/// Members that do not throw (subscripts, ``get(key:)``, ``set(_:key:)``) report errors to
/// ``onError(_:)``; ``value(_:forKey:)`` and `setValue(_:forKey:)` throw them. A read with a default
/// never overwrites a stored value of another type.
///
/// Any string is a key. Strings that differ only in Unicode normalisation are different keys.
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
  /// If its store cannot be opened, every throwing member throws that error.
  public static let shared = Defaults()

  /// Creates another handle of the suite of ``shared``.
  public convenience init() {
    let bundle = Bundle.main.bundleIdentifier
    let name = DefaultsSuite.sanitizedName(bundle ?? ProcessInfo.processInfo.processName)
    let path = DefaultsSuite.directory + "/" + name
    self.init(name: name, path: path, state: Result { try DefaultsStore(at: path) })
  }

  /// Opens a suite, and creates it if it does not exist.
  ///
  /// - Parameter suiteName: A file name, or `nil` for the suite of ``shared``.
  /// - Throws: ``DefaultsError/Code/invalidSuiteName`` if the name is empty or contains a path;
  ///   `StoreError` if the store cannot be opened.
  public convenience init(suiteName: String?) throws {
    guard let suiteName else {
      self.init()
      _ = try state.get()
      return
    }
    let path = try DefaultsSuite.path(of: suiteName)
    self.init(name: suiteName, path: path, state: .success(try DefaultsStore(at: path)))
  }

  /// Opens a suite in a given directory, and creates it if it does not exist: for tests, and for
  /// settings that belong to a document.
  ///
  /// - Parameter path: The path of the directory.
  /// - Throws: `StoreError` if the store cannot be opened.
  public convenience init(at path: String) throws {
    let store = try DefaultsStore(at: path)
    let path = store.store.path
    let name = path.split(separator: "/").last.map(String.init) ?? path
    self.init(name: name, path: path, state: .success(store))
  }

  /// Opens a suite that exists, only to read it: a tool changes nothing in it.
  ///
  /// - Parameters:
  ///   - path: The path of the directory.
  ///   - follows: Whether the handle waits for changes.
  package convenience init(readingAt path: String, follows: Bool = false) throws {
    let store = try DefaultsStore(at: path, follows ? .following : .reading)
    let name = store.store.path.split(separator: "/").last.map(String.init) ?? path
    self.init(name: name, path: store.store.path, state: .success(store))
  }

  private init(name: String, path: String, state: Result<DefaultsStore, any Error>) {
    suiteName = name
    self.path = path
    self.state = state
    tiers = DefaultsMemoryTiers(core: try? state.get().store.core)
  }

  deinit {
    if isForkedChild { return }
    watches.end()
    try? state.get().store.close()
  }

  /// Whether this process is a fork of the one that opened the suite. It acquires no lock of it.
  private var isForkedChild: Bool { (try? state.get().store.isForkedChild) ?? false }

  /// Closes the handle. Later calls on it throw `StoreError` with the code `closed`; a second close
  /// has no effect, and neither has one in a forked child.
  public func close() {
    if isForkedChild { return }
    watches.end()
    try? state.get().store.close()
    tiers.removeAll()
  }

  /// Sets the handler of errors that no member throws: those of subscripts, `get` and `set`.
  ///
  /// - Parameter handler: A closure that is called on the thread where the error occurs. It replaces
  ///   the previous one.
  public func onError(_ handler: (@Sendable (any Error) -> Void)?) {
    errorHandler.withLock { $0 = handler }
  }

  @usableFromInline func report(_ error: any Error) {
    if isForkedChild { return }
    errorHandler.withLock { $0 }?(error)
  }

  // MARK: The suite as a whole

  /// Returns whether a key has a value of any type.
  ///
  /// - Throws: `StoreError`.
  public func has(_ key: String) throws -> Bool { try state.get().contains(key) }

  /// Returns the keys that have values, in alphabetic order.
  ///
  /// - Throws: `StoreError`.
  /// - Complexity: O(*n* log *n*) for *n* keys of the suite.
  public func keys() throws -> [String] { try state.get().keys() }

  /// Removes every value, for every process.
  ///
  /// - Throws: `StoreError`.
  public func removeAll() throws { try state.get().removeAll() }

  /// Returns the stored form of a value, for tools without the type, or `nil` if the key has none.
  package func storedValue(forKey key: String) throws -> StoredValue? {
    try state.get().entry(key)
  }

  /// Stores a value that a tool has encoded.
  package func setStored(codec: UInt16, payload: [UInt8], forKey key: String) throws {
    try state.get().put(DefaultsContent(codec: codec, payload: payload), key)
  }
}
