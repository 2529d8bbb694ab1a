// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
public import LarderEngine
internal import LarderObjects
internal import Synchronization

/// A factory that returns one manager per type, all over one store.
///
/// ```swift
/// let users: CacheManager<User> = try NativefierFactory.shared.cache(
///   initialMaxMemorySize: 1.megaByte, initialMaxDiskSize: 10.megaByte)
/// ```
///
/// Safe to use from several threads.
public final class NativefierFactory: Sendable {
  private struct State {
    var store: SharedStore?
    var managers: [ObjectIdentifier: any Sendable] = [:]
  }

  /// The factory over the default store in the user's cache directory, which is opened on first
  /// use.
  public static let shared = NativefierFactory(path: nil)

  private let path: String?
  private let state: Mutex<State>

  /// Creates a factory over a cache in a directory, which is opened on first use.
  ///
  /// - Parameter path: The directory, or `nil` for the default store.
  public init(path: String?) {
    self.path = path
    state = Mutex(State())
  }

  /// Creates a factory over an open store.
  ///
  /// - Parameter store: The store.
  public init(_ store: SharedStore) {
    path = nil
    state = Mutex(State(store: store))
  }

  /// Returns the manager of a type. Each call returns the same manager, with the sizes of the first
  /// call.
  ///
  /// - Parameters:
  ///   - type: The type of the values.
  ///   - initialMaxMemorySize: The most this process keeps decoded in memory.
  ///   - initialMaxDiskSize: The most that is kept, for all processes; the process that came last
  ///     decides.
  public func cache<Archive: Archivable>(
    for type: Archive.Type = Archive.self, initialMaxMemorySize: Int = 1.megabytes,
    initialMaxDiskSize: Int = 2.megabytes
  ) throws -> CacheManager<Archive> {
    try state.withLock { state in
      if let known = state.managers[ObjectIdentifier(type)] as? CacheManager<Archive> {
        return known
      }
      let shared = try state.store ?? SharedStore(at: path)
      state.store = shared
      let store = ObjectStore(
        shared, memory: CacheOptions(memoryCostLimit: .bytes(initialMaxMemorySize)))
      let manager = try CacheManager<Archive>(store, maxSize: initialMaxDiskSize)
      state.managers[ObjectIdentifier(type)] = manager
      return manager
    }
  }
}
