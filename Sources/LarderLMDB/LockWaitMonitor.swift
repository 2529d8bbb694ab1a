// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem
internal import Synchronization

// WAITING FOR LMDB'S LOCKS
//
// LMDB's two locks, of the writer and of the reader table, are robust mutexes of the C library in
// `lock.mdb`: a holder that dies gives them back. But one that dies after it was woken and before
// it has the lock takes the wake-up with it, and the next one sleeps on: the lock is free, or its
// newest holder has never heard of a waiter. Linux wakes another for the dead if the word is zero
// by then; somebody may have taken the lock in between. Without help the sleeper goes on only when
// a third comes to wait for the same lock.
//
// The help: while somebody of this process is inside a call that may wait for one of the locks, a
// thread looks at their words, every 40 ms. Where no holder is going to wake anybody, it wakes one
// sleeper, of whichever process: the same as the wake-up that was lost. Where a process is killed
// with this one as well, the next look wakes the next.
//
// A wake-up too many does no harm. In glibc, the loop of __pthread_mutex_lock_full for robust
// mutexes (nptl/pthread_mutex_lock.c) reads the word anew after each return of futex_wait and
// takes the lock only by an exchange from zero, or from a dead owner; else it sets FUTEX_WAITERS
// and sleeps again. Who took the lock after a sleep keeps FUTEX_WAITERS set (its
// assume_other_futex_waiters), so that from the one that was woken on all others are woken in turn.
//
// Where the words are. A futex of a shared mapping is known by file and offset, not by address: the
// first page of the file is mapped once more, read-only, from LMDB's own descriptor. That page is
// this object's own: it is there for as long as somebody can look at it, whenever LMDB unmaps its
// own, and a descriptor that is neither opened nor closed drops no lock. LMDB does not tell the
// descriptor: it is a word of its structure. That it is the file's is checked, device and inode, and
// that the page begins as a lock file of the known format and has a mutex of the known kind where
// the writer's is expected. Where anything differs (another liblmdb, another C library, another
// system), there is no help, and what is said above stays.

/// The calls of this process that may wait for a lock of one environment.
@safe
final class LockWaitMonitor: Sendable {
  /// Of `lock.mdb`: magic, format.
  private static let magic: UInt32 = 0xBEEF_C0DE
  private static let format: UInt32 = 0x0001_0001

  /// The calls begun, times 2^32, and those not ended.
  private let calls = Atomic<UInt64>(0)
  private static let oneBegun: UInt64 = (1 << 32) + 1
  /// What ``calls`` was when the thread looked last.
  private let seen = Atomic<UInt64>(0)
  private let page: MappedRegion
  /// Where the locks are in the page.
  private let locks: [Int]
  /// The offset of the writer's lock.
  private let writer: Int
  private let watch = LostWakeupWatchdog.shared

  /// - Parameter environment: Open, in `directory`.
  init?(of environment: OpaquePointer, in directory: String) {
    let descriptor = unsafe larder_env_lock_descriptor(environment)
    let size = Int(larder_mutex_size())
    // Magic, format, two words and the readers' lock; then the writer's, in lines of the cache.
    let writer = (24 + size + 63) & ~63
    guard
      size > 0,
      let status = FileSystem.status(ofDescriptor: descriptor), status.size >= writer + size,
      (try? FileSystem.status(of: directory + "/lock.mdb"))??.identity == status.identity,
      let page = try? MappedRegion(reading: descriptor, count: writer + size),
      unsafe page.base.load(as: UInt32.self) == LockWaitMonitor.magic,
      unsafe page.base.load(fromByteOffset: 4, as: UInt32.self) == LockWaitMonitor.format,
      unsafe larder_is_robust_mutex(page.base + writer) == 1
    else { return nil }
    // The readers' lock stands before or behind the two words, in one release or another.
    locks = [8, 24, writer].filter { unsafe larder_is_robust_mutex(page.base + $0) == 1 }
    self.page = page
    self.writer = writer
  }

  /// The thread that holds the writer's lock, of any process; `nil` when the lock is free.
  @inline(__always)
  var writerThread: Int32? {
    let thread = unsafe larder_mutex_holder(page.base + writer)
    return thread == 0 ? nil : thread
  }

  /// Runs a call of LMDB that may wait for one of the locks; `nil`: there is no help.
  @inline(__always)
  static func during(_ waits: LockWaitMonitor?, _ call: () -> CInt) -> CInt {
    if let waits {
      // Said before the look whether the thread is awake, which falls asleep in the opposite order.
      waits.calls.wrappingAdd(oneBegun, ordering: .sequentiallyConsistent)
      if !waits.watch.isAwake { waits.watch.wake() }
    }
    let status = call()
    waits?.calls.wrappingSubtract(1, ordering: .relaxed)
    return status
  }

  /// Whether somebody is inside such a call.
  var isAwaited: Bool {
    UInt32(truncatingIfNeeded: calls.load(ordering: .sequentiallyConsistent)) > 0
  }

  /// Wakes a sleeper of each lock whose holder, or who was holder, wakes none.
  ///
  /// - Returns: Whether anybody has begun or ended a call since, or is inside of one.
  func look() -> Bool {
    let now = calls.load(ordering: .sequentiallyConsistent)
    if UInt32(truncatingIfNeeded: now) > 0 {
      for lock in locks where unsafe larder_mutex_wakes_next(page.base + lock) == 0 {
        unsafe Futex.wakeOne(page.base + lock)
      }
      return true
    }
    return seen.exchange(now, ordering: .relaxed) != now
  }
}

/// The thread that looks after this process's ``LockWaitMonitor``.
///
/// It starts with the first call that may wait, and sleeps for good, until the next such call, when
/// between two looks there was none: a process that does not write wakes nobody.
package final class LostWakeupWatchdog: Sendable {
  package static let shared = LostWakeupWatchdog()
  private static let period: UInt64 = 40_000_000

  /// Whether the thread will look before it sleeps for good.
  private let awake = Atomic<Bool>(false)
  private let isRunning = Atomic<Bool>(false)
  /// When a thread was last refused, in nanoseconds.
  private let refused = Atomic<UInt64>(0)
  private let all = Mutex<[LockWaitMonitor]>([])
  private let work = Event()
  // Made here: a thread that allocates nothing has no arena of its own, 64 MiB of address space.
  private let pause = Event()

  private init() {}

  /// Also for tests.
  @inline(__always)
  package var isAwake: Bool { awake.load(ordering: .sequentiallyConsistent) }

  func add(_ waits: LockWaitMonitor) { all.withLock { $0.append(waits) } }

  func remove(_ waits: LockWaitMonitor) {
    // The thread may have had the lock when it was left behind.
    if ForkGuard.isForkedChild { return }
    all.withLock { $0.removeAll { $0 === waits } }
  }

  @inline(never)
  func wake() {
    // In want of threads: once a second.
    let last = refused.load(ordering: .relaxed)
    if last > 0, Clocks.monotonicNanoseconds() &- last < 1_000_000_000 { return }
    if awake.exchange(true, ordering: .sequentiallyConsistent) { return }
    if isRunning.exchange(true, ordering: .relaxed) { return work.set() }
    do throws(SystemError) {
      try OSThread.start { self.run() }
    } catch {
      refused.store(Clocks.monotonicNanoseconds(), ordering: .relaxed)
      isRunning.store(false, ordering: .relaxed)
      awake.store(false, ordering: .sequentiallyConsistent)
    }
  }

  private func run() {
    while true {
      repeat { pause.wait(nanoseconds: LostWakeupWatchdog.period) } while look()
      awake.store(false, ordering: .sequentiallyConsistent)
      // Who has said so by now may have found the thread awake.
      if all.withLock({ $0.contains { $0.isAwaited } }) {
        awake.store(true, ordering: .sequentiallyConsistent)
        continue
      }
      work.wait()
      work.reset()
    }
  }

  private func look() -> Bool {
    var isBusy = false
    for waits in all.withLock({ $0 }) where waits.look() { isBusy = true }
    return isBusy
  }
}
