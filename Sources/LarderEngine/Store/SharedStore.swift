// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderSystem
internal import Synchronization

/// A store on disk that any number of processes on one machine share.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp", .init(budget: .megabytes(256)))
/// let messages = PersistentCache<UUID, [String]>(storage: store, namespace: "messages")
/// ```
///
/// Opening the same directory again in the same process, by any path, returns the same store. A
/// commit of one process is visible to the next read of every other process. A process that is
/// killed, at any instruction, loses only its uncommitted writes, and no other process waits for
/// it.
///
/// Open stores after `fork()`: in a child of a process that had opened a store, every call of every
/// store fails with ``StoreError/Code/usedAfterFork``. Fork before the first store is opened, or start
/// the process with `posix_spawn`.
public final class SharedStore: Sendable {
  /// The options for opening a store.
  public typealias Options = StoreOptions

  /// The engine of the store.
  package let core: StoreCore
  private let isClosed = Atomic<Bool>(false)

  /// The path of the default store: `$XDG_CACHE_HOME/larder`, otherwise `~/.cache/larder`; the
  /// caches directory on Apple systems.
  public static var defaultPath: String { StoreDirectory.defaultPath }

  /// The store at ``defaultPath``, or `nil` if it cannot be opened. The first access opens it.
  ///
  /// To get the error, open the store with ``init(at:_:)``.
  public static let shared: SharedStore? = try? SharedStore()

  /// Opens a store, and creates it if it does not exist.
  ///
  /// - Parameters:
  ///   - path: A directory, absolute or relative; `nil` means ``defaultPath``. Missing directories
  ///     are created with mode 0700.
  ///   - options: The options. Durability and budget apply to a new store. A budget that differs
  ///     from the budget of an existing store changes it for every process. If this process has the
  ///     store open already, the other options of the first handle apply to all.
  /// - Throws: ``StoreError`` with the path and a remedy, for example
  ///   ``StoreError/Code/directory``, ``StoreError/Code/durabilityMismatch``,
  ///   ``StoreError/Code/invalidOption`` or ``StoreError/Code/openTimeout``.
  public init(at path: String? = nil, _ options: StoreOptions = StoreOptions()) throws {
    core = try StoreCore.open(at: path ?? StoreDirectory.defaultPath, options: options)
  }

  deinit { close() }

  /// The directory of the store.
  public var path: String { core.directory.path }

  /// Returns the durability of the store at a path, without opening it.
  ///
  /// - Parameter path: The directory of the store.
  /// - Returns: The durability, or `nil` if there is no store.
  /// - Throws: ``StoreError/Code/directory`` if this user has no access: the store, or a directory
  ///   above it, belongs to another user, whose uid the message contains.
  public static func durability(ofStoreAt path: String) throws(StoreError) -> Durability? {
    try StoreDirectory.findDamaged(path)?.1
  }

  /// Closes this handle. The last handle of the process commits the queued writes and closes the
  /// files.
  ///
  /// If another process is stopped inside a write, this waits for ``StoreOptions/writeTimeout``; then the queued
  /// writes are lost, and ``StoreOptions/onError`` gets the error. A sync that the disk has not finished is waited for.
  ///
  /// Further calls have no effect. Later use of the handle fails with ``StoreError/Code/closed``. In a forked child
  /// the call has no effect either: the store stays open in the parent.
  public func close() {
    if ForkGuard.isForkedChild { return }
    if isClosed.exchange(true, ordering: .acquiringAndReleasing) { return }
    // Observers of this handle end.
    if core.observerCount > 0 { core.watcher.repeatWakeUp(core) }
    core.release()
  }

  /// Whether this handle was closed.
  package var hasClosed: Bool { isClosed.load(ordering: .acquiring) }

  /// Whether this process is a fork of the one that opened the store. Such a process acquires no
  /// lock of the store.
  package var isForkedChild: Bool { ForkGuard.isForkedChild }

  /// The number of waiting observers of this process.
  package var observerCount: Int { core.observerCount }

  /// Returns the engine while this handle is open.
  ///
  /// Every public operation of every facade calls this method or `StoreCore.generation()` before it
  /// acquires a lock: in a forked child, a thread of the parent may hold that lock.
  ///
  /// - Throws: ``StoreError/Code/usedAfterFork`` or ``StoreError/Code/closed``.
  package func openCore(_ operation: String) throws(StoreError) -> StoreCore {
    if ForkGuard.isForkedChild { throw .usedAfterFork(operation) }
    if isClosed.load(ordering: .acquiring) { throw .closed(operation) }
    return core
  }

  /// Waits until every earlier `cache[key] = value` of this process is committed. For a `.relaxed`
  /// store, also waits until every earlier commit of any process is on the disk.
  ///
  /// - Throws: ``StoreError``.
  public func sync() throws {
    try openCore("sync").synchronize()
  }

  // MARK: Bytes

  /// Returns the bytes that are stored for a key.
  ///
  /// The bytes are those of the newest commit, of any process, that was acknowledged before the
  /// call began. Pending writes of this process override them.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - namespace: The name of the namespace, at most 400 bytes of UTF-8.
  /// - Returns: The bytes, or `nil` if the key has no visible entry.
  /// - Throws: ``StoreError``; ``StoreError/Code/unreadableEntry`` if the entry is damaged.
  /// - Complexity: O(log *n*), and a copy of the bytes.
  public func bytes(forKey key: some CacheKey, in namespace: String = "") throws -> [UInt8]? {
    try StoreNamespace(store: self, name: namespace).bytes(forKey: key)
  }

  /// Stores bytes for a key and waits for the commit. Every process sees them with its next read.
  ///
  /// - Parameters:
  ///   - bytes: The bytes to store.
  ///   - key: The key.
  ///   - namespace: The name of the namespace, at most 400 bytes of UTF-8.
  ///   - expires: The time at which the entry becomes invisible.
  ///   - tags: The tags by which ``removeAll(tagged:)`` removes the entry.
  ///   - pinned: Whether the entry is never evicted.
  /// - Throws: ``StoreError``; ``StoreError/Code/valueTooLarge``, ``StoreError/Code/storageFull``,
  ///   ``StoreError/Code/invalidNamespace``, ``StoreError/Code/invalidOption`` for a lifetime of zero or
  ///   less or invalid tags, ``StoreError/Code/pinLimitReached``, or ``StoreError/Code/writerStalled``
  ///   after ``StoreOptions/writeTimeout``.
  /// - Complexity: O(log *n*), and a copy of the bytes.
  public func setBytes(
    _ bytes: [UInt8], forKey key: some CacheKey, in namespace: String = "",
    expires: Expiration = .never, tags: [String] = [], pinned: Bool = false
  ) throws {
    try StoreNamespace(store: self, name: namespace).setBytes(
      bytes, forKey: key, expires: expires, tags: tags, pinned: pinned)
  }

  /// Removes the entry of a key for every process and waits for the commit.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - namespace: The name of the namespace, at most 400 bytes of UTF-8.
  /// - Returns: Whether a visible entry was removed.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(log *n*).
  @discardableResult
  public func remove(forKey key: some CacheKey, in namespace: String = "") throws -> Bool {
    try StoreNamespace(store: self, name: namespace).remove(forKey: key)
  }

  /// Removes every entry of every namespace, for every process.
  ///
  /// The entries are invisible at once, and are then swept from the file.
  ///
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*n*) in the entries of the store.
  public func removeAll() throws { try openCore("removeAll").clear(nil) }

  /// Removes every entry of a namespace, for every process.
  ///
  /// The entries are invisible at once, and are then swept from the file.
  ///
  /// - Parameter namespace: The name of the namespace, at most 400 bytes of UTF-8.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*n*) in the entries of the store.
  public func removeAll(in namespace: String) throws {
    let core = try openCore("removeAll")
    try core.clear(NamespaceHandle(name: namespace))
  }

  /// Removes expired entries. They are invisible already; the removal frees their space.
  ///
  /// - Returns: The number of removed entries.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*m* log *n*) for *m* expired entries.
  @discardableResult
  public func removeExpired() throws -> Int {
    Int(try openCore("removeExpired").removeExpired())
  }

  // MARK: Transactions

  /// Runs a transaction of several writes: all of them become visible at once, or none.
  ///
  /// ```swift
  /// try store.write { transaction in
  ///   let old = try transaction.bytes(forKey: "visits", in: "counters")?.first ?? 0
  ///   try transaction.setBytes([old &+ 1], forKey: "visits", in: "counters")
  /// }
  /// ```
  ///
  /// The closure runs on one thread, under the store's writer lock, so it should be short. A write
  /// to the same store by other means inside it fails with ``StoreError/Code/insideTransaction``, and one to
  /// another store whose transaction waits for this one with ``StoreError/Code/crossingWrites``;
  /// for a write by subscript, that error is passed to `onError`. An error that the closure throws
  /// discards all changes.
  ///
  /// The closure may run again from the beginning if the first run cannot be kept, because the
  /// store switched generations or the disk is full.
  ///
  /// After a `kill -9`, all changes are kept, or none was ever visible.
  ///
  /// - Parameter body: A closure that reads and writes with the transaction.
  /// - Returns: The result of `body`.
  /// - Throws: The error of `body`, or ``StoreError``.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout StoreTransaction) throws -> R
  ) throws -> R {
    try openCore("write").write(body)
  }

  /// Runs a transaction on the store's own thread, without blocking a thread of Swift's pool.
  ///
  /// See the synchronous method for the rules of the closure.
  ///
  /// - Parameter body: A closure that reads and writes with the transaction.
  /// - Returns: The result of `body`.
  /// - Throws: The error of `body`, or ``StoreError``.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout StoreTransaction) throws -> R
  ) async throws -> R {
    let core = try openCore("write")
    let box = StoreCore.ResultBox<R>()
    _ = try await core.submitAsync(
      .exclusive { core in box.set(Result { try core.transactBody(body) }) }, space: nil)
    return try box.get()
  }

  // MARK: Files

  /// Copies the stored data into new files without free pages, and returns the free space to the
  /// disk.
  ///
  /// Other processes continue to read during the copy, and switch to the new files with their next
  /// operation, which takes microseconds unless the process is stopped in it. Writers, and processes that open or close the store, wait. The old files are
  /// removed when the last process has left them. A store whose files grow because a process is
  /// stopped in the middle of a read compacts itself.
  ///
  /// If the process is killed at any point, the compaction has either taken place or not.
  ///
  /// - Throws: ``StoreError``; ``StoreError/Code/storageFull`` if the disk has no space for the
  ///   copy. Then nothing has changed.
  /// - Complexity: Reads and writes all stored data.
  public func compact() throws { try openCore("compact").compact() }

  // MARK: Inspection

  /// Returns the contents and the usage of the store, summed over all processes.
  ///
  /// - Throws: ``StoreError``.
  public func statistics() throws -> StoreStatistics { try openCore("statistics").statistics() }
}

extension StoreCore {
  /// Whether the calling thread is inside a user's transaction, where another write fails.
  package var isInsideTransaction: Bool {
    bodyThread.load(ordering: .relaxed) == OSThread.token
  }

  /// Runs a transaction of several writes; see ``SharedStore/write(_:)``.
  package func write<R: Sendable>(
    _ body: @escaping @Sendable (inout StoreTransaction) throws -> R
  ) throws -> R {
    try runExclusively { core in try core.transactBody(body) }
  }

  /// A number that identifies the calling thread among the living threads of this process.
  package static var callingThread: UInt64 { OSThread.token }

  /// Runs a user's transaction. The caller is the commit leader.
  func transactBody<R>(_ body: (inout StoreTransaction) throws -> R) throws -> R {
    bodyThread.store(OSThread.token, ordering: .relaxed)
    CrossingWrites.running.add(1, ordering: .acquiringAndReleasing)
    defer {
      CrossingWrites.running.subtract(1, ordering: .acquiringAndReleasing)
      bodyThread.store(0, ordering: .relaxed)
    }
    do {
      return try makingDiskRoom(repeatsErrors: false) { attempt in
        try withGeneration { generation in
          let done = try transactWithoutWait(in: generation) { transaction in
            limitRoom(of: &transaction, attempt)
            let result = try body(&transaction)
            if !transaction.touchedSlots.isEmpty { generation.count(.sets) }
            return result
          }
          // After leadership is transferred.
          deferredWait.withLock { $0 = done.wait }
          return done.result
        }
      }
    } catch let error as StoreError {
      throw error
    } catch {
      let wrapped = StoreError(wrapping: error, during: "write", path: directory.path)
      // The user's errors pass through unchanged.
      throw wrapped.code == .system && wrapped.errorNumber == nil ? error : wrapped
    }
  }
}
