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
/// Opening the same directory again in the same process, by whatever path, gives the same store.
/// What one process commits, every other sees with its next read. A process that is killed, at any
/// instruction, loses only what it had not committed, and nobody waits for it.
///
/// Open stores after `fork()`: in a forked child every call fails with
/// ``StoreError/Code/usedAfterFork``.
public final class SharedStore: Sendable {
  /// The options of a store.
  public typealias Options = StoreOptions

  /// The engine behind the handle.
  package let core: StoreCore
  private let isClosed = Atomic<Bool>(false)

  /// The default store: `$XDG_CACHE_HOME/larder`, else `~/.cache/larder`; the caches directory on
  /// Apple systems.
  public static var defaultPath: String { StoreDirectory.defaultPath }

  /// The store at ``defaultPath``, opened when it is first asked for; `nil` if it cannot be opened.
  ///
  /// Open it yourself with ``init(at:_:)`` to learn why.
  public static let shared: SharedStore? = try? SharedStore()

  /// Opens a store, creating it if there is none.
  ///
  /// - Parameters:
  ///   - path: A directory, absolute or relative; `nil` for ``defaultPath``. Missing directories are
  ///     created with mode 0700.
  ///   - options: Durability and budget count for a new store; a budget that differs from the
  ///     store's changes it for everybody.
  /// - Throws: ``StoreError``, naming the path and the remedy.
  public init(at path: String? = nil, _ options: StoreOptions = StoreOptions()) throws {
    core = try StoreCore.open(at: path ?? StoreDirectory.defaultPath, options: options)
  }

  deinit { close() }

  /// The directory the store is in.
  public var path: String { core.directory.path }

  /// Whether a store exists at a path, and of which durability.
  ///
  /// - Returns: `nil` when there is none.
  /// - Throws: ``StoreError/Code/directory`` when this user may not look there: the store, or a
  ///   directory above it, is another user's, whom the message names.
  public static func durability(ofStoreAt path: String) throws(StoreError) -> Durability? {
    try StoreDirectory.findDamaged(path)?.1
  }

  /// Closes this handle; the last one of the process commits what waits and closes the files.
  ///
  /// Idempotent. Later use of the handle fails with ``StoreError/Code/closed``.
  public func close() {
    if !isClosed.exchange(true, ordering: .acquiringAndReleasing) { core.release() }
  }

  package var hasClosed: Bool { isClosed.load(ordering: .acquiring) }

  /// Whether this process is a fork of the one that opened the store: it acquires no lock of it then.
  package var isForkedChild: Bool { ForkGuard.isForkedChild }

  /// How many observers of this process wait.
  package var observerCount: Int { core.observerCount }

  /// The engine, for as long as this handle is open.
  ///
  /// Every entry of every facade comes through here or through `StoreCore.generation()` before it
  /// acquires a lock: a thread that does not exist in a forked child may hold the lock there.
  package func openCore(_ operation: String) throws(StoreError) -> StoreCore {
    if ForkGuard.isForkedChild { throw .usedAfterFork(operation) }
    if isClosed.load(ordering: .acquiring) { throw .closed(operation) }
    return core
  }

  /// Waits until every `cache[key] = value` of this process so far is committed; and of a `.relaxed`
  /// store, until every commit so far, of any process, is on the disk.
  public func sync() throws {
    try openCore("sync").synchronize()
  }

  // MARK: Bytes

  /// The bytes stored for a key, or `nil`.
  ///
  /// They are those of the newest commit any process was told about when the call began.
  ///
  /// - Throws: ``StoreError``; ``StoreError/Code/unreadableEntry`` when the entry is damaged.
  public func bytes(forKey key: some CacheKey, in namespace: String = "") throws -> [UInt8]? {
    try StoreNamespace(store: self, name: namespace).bytes(forKey: key)
  }

  /// Stores bytes; they are committed when the call returns.
  public func setBytes(
    _ bytes: [UInt8], forKey key: some CacheKey, in namespace: String = "",
    expires: Expiration = .never
  ) throws {
    try StoreNamespace(store: self, name: namespace).setBytes(bytes, forKey: key, expires: expires)
  }

  /// Removes a key for everybody; the removal is committed when the call returns.
  ///
  /// - Returns: Whether there was an entry.
  @discardableResult
  public func remove(forKey key: some CacheKey, in namespace: String = "") throws -> Bool {
    try StoreNamespace(store: self, name: namespace).remove(forKey: key)
  }

  /// Removes every entry of every namespace, for everybody.
  public func removeAll() throws { try openCore("removeAll").clear(nil) }

  /// Removes every entry of a namespace, for everybody: gone at once, then swept from the file.
  public func removeAll(in namespace: String) throws {
    let core = try openCore("removeAll")
    try core.clear(NamespaceHandle(name: namespace))
  }

  /// Removes every entry of every namespace, for everybody, without blocking a thread of Swift's pool.
  public func removeAll() async throws {
    try await BackgroundExecutor.shared.run { try self.removeAll() }
  }

  /// Removes every entry of a namespace, for everybody, without blocking a thread of Swift's pool.
  public func removeAll(in namespace: String) async throws {
    try await BackgroundExecutor.shared.run { try self.removeAll(in: namespace) }
  }

  /// Removes entries whose time is over. They are invisible anyway; this gives their room back.
  ///
  /// - Returns: The number removed.
  @discardableResult
  public func removeExpired() throws -> Int {
    Int(try openCore("removeExpired").removeExpired())
  }

  // MARK: Transactions

  /// Runs a transaction of several writes: all of them become visible at once, or none does.
  ///
  /// ```swift
  /// try store.write { transaction in
  ///   let old = try transaction.bytes(forKey: "visits", in: "counters")?.first ?? 0
  ///   try transaction.setBytes([old &+ 1], forKey: "visits", in: "counters")
  /// }
  /// ```
  ///
  /// The closure runs on one thread, under the store's writer lock: keep it short. A write to the same
  /// store by other means inside it fails with ``StoreError/Code/insideTransaction``; one of a
  /// subscript goes to `onError`. An error thrown inside undoes everything. It may be run again from the beginning, when nothing of the first run can be kept: the store's
  /// files were replaced meanwhile, or the disk is full.
  ///
  /// After a `kill -9` all of it is kept, or none of it was ever visible.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout StoreTransaction) throws -> R
  ) throws -> R {
    try openCore("write").write(body)
  }

  /// Runs a transaction on the store's own thread, so that no thread of Swift's pool waits.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout StoreTransaction) throws -> R
  ) async throws -> R {
    let core = try openCore("write")
    let box = StoreCore.ResultBox<R>()
    _ = try await core.submitAsync(
      .exclusive { core in box.value.withLock { $0 = Result { try core.transactBody(body) } } },
      space: nil)
    guard let outcome = box.value.withLock({ $0 }) else { throw StoreError.closed("write") }
    return try outcome.get()
  }

  // MARK: Files

  /// Copies what is stored into new files without the room that became free, and gives that back
  /// to the disk.
  ///
  /// Other processes read on meanwhile, and follow with their next operation; writers, and whoever
  /// opens or closes the store, wait. The old
  /// files go when the last process has left them. A store whose files grow because of a process
  /// that is stopped in the middle of a read does this by itself.
  ///
  /// Killed at any moment, it has either been done or not.
  ///
  /// - Throws: ``StoreError``; ``StoreError/Code/storageFull`` when the disk has no room for the
  ///   copy. Then nothing has changed.
  /// - Complexity: Reads and writes everything stored.
  public func compact() throws { try openCore("compact").compact() }

  /// Copies what is stored into new files without the room that became free, without blocking a thread
  /// of Swift's pool; see the synchronous form.
  public func compact() async throws {
    try await BackgroundExecutor.shared.run { try self.compact() }
  }

  // MARK: Looking inside

  /// What the store holds and how it is used, by all processes together.
  public func statistics() throws -> StoreStatistics { try openCore("statistics").statistics() }

  /// Checks the file, every entry, and the books; sound means an empty array. The worst comes first.
  ///
  /// ```swift
  /// let findings = try store.verify { print("\($0.phase): \($0.done) of \($0.total)") }
  /// ```
  ///
  /// Nobody waits: one snapshot is checked while all processes read and write on. Until it ends, that
  /// snapshot keeps freed pages from being used again, so the file grows by what others write
  /// meanwhile, and stays that large.
  ///
  /// - Parameter progress: Called now and then, on the calling thread. It must not use the store.
  /// - Complexity: Reads the whole file.
  public func verify(progress: ((StoreProgress) -> Void)? = nil) throws -> [StoreFinding] {
    try openCore("verify").verify(progress: progress)
  }
}

extension StoreCore {
  /// Whether the calling thread is inside a user's transaction, where another write fails.
  package var isInsideTransaction: Bool {
    bodyThread.load(ordering: .relaxed) == OSThread.token
  }

  package func write<R: Sendable>(
    _ body: @escaping @Sendable (inout StoreTransaction) throws -> R
  ) throws -> R {
    try runExclusively { core in try core.transactBody(body) }
  }

  /// Runs a user's transaction. The caller has the writer's role.
  func transactBody<R>(_ body: (inout StoreTransaction) throws -> R) throws -> R {
    bodyThread.store(OSThread.token, ordering: .relaxed)
    defer { bodyThread.store(0, ordering: .relaxed) }
    do {
      return try withGeneration { generation in
        try transact(in: generation) { transaction in
          let result = try body(&transaction)
          if !transaction.touchedSlots.isEmpty { generation.count(.sets) }
          return result
        }.result
      }
    } catch let error as StoreError {
      throw error
    } catch {
      let wrapped = StoreError(wrapping: error, during: "write", path: directory.path)
      // The user's own errors pass through untouched.
      throw wrapped.code == .system && wrapped.errorNumber == nil ? error : wrapped
    }
  }
}
