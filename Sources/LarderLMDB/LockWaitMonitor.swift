// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem
internal import Synchronization

// LOST WAKE-UPS OF LMDB'S LOCKS
//
// LMDB's two locks, of the writer and of the reader table, are robust mutexes of the C library in
// `lock.mdb`: the kernel releases them when the holder exits. If a process is killed after it was
// woken and before it has acquired the lock, the wake-up is lost, and the next waiter sleeps
// although the lock is free, or although its newest holder does not know of a waiter. Linux wakes
// another waiter for the dead process if the word is zero by then, but another thread may have
// acquired the lock in between. Without help the waiter continues only when a third thread waits
// for the same lock.
//
// The watchdog: while a thread of this process is inside a call that may wait for one of the locks,
// a watchdog thread reads their words every 40 ms. If no holder is going to wake a waiter, it wakes
// one waiter, of any process: a substitute for the lost wake-up. If that waiter is killed too, the
// next check wakes the next one.
//
// A spurious wake-up is harmless. In glibc, the loop of __pthread_mutex_lock_full for robust
// mutexes (nptl/pthread_mutex_lock.c) rereads the word after each return of futex_wait and acquires
// the lock only by an exchange from zero, or from a dead owner; else it sets FUTEX_WAITERS and
// sleeps again. A thread that acquires the lock after a sleep keeps FUTEX_WAITERS set (its
// assume_other_futex_waiters), so after the first wake-up each holder wakes the next waiter.
//
// A DAMAGED LOCK
//
// A word that names a thread which does not have the lock is never changed again: every waiter sleeps for ever. The
// kernel changes the word of a thread that ends before the thread's number is free. So a word with the number of no
// thread, or with waiters and no number, is damaged. A number of a thread that exists is damage if that thread cannot
// have the lock, which the code that opened the environment can know (`judgeWriters(by:)`).
//
// A damaged word gets the value that the kernel stores when a holder dies. Its next holder gets EOWNERDEAD, and LMDB
// then sets right what the lock protects, as after a kill. The exchange is from the word that was
// judged, so a holder that got the lock meanwhile keeps it. A word is judged only if all processes that LMDB knows are
// of this PID namespace: a program of another one that uses LMDB directly has other numbers, which name here no thread,
// or any (`hasForeignUser`). The watchdog judges a word that it saw in two checks;
// waiters that hold the writer ticket judge it themselves, because they do not call LMDB (`isFree(for:canHold:)`).
//
// Location of the words. The kernel identifies a futex of a shared mapping by file and offset, not
// by address: the first page of the file is mapped a second time, read-only, from LMDB's own
// descriptor. This object owns that page: it exists as long as a thread can read it, even after
// LMDB unmaps its own, and a descriptor that is neither opened nor closed drops no lock. LMDB has
// no function for that descriptor: it is a word of its structure. The code checks that it is the
// file's (device and inode), that the page begins as a lock file of the known format, and that a
// mutex of the known kind is where the writer's is expected. If anything differs (another liblmdb,
// another C library, another system), the watchdog is off, and lost wake-ups have the effect
// described above.

/// The calls of this process that may wait for a lock of one environment.
@safe
final class LockWaitMonitor: Sendable {
  /// The magic number of `lock.mdb`, before the format.
  private static let magic: UInt32 = 0xBEEF_C0DE
  private static let format: UInt32 = 0x0001_0001

  /// The number of calls started, times 2^32, plus the number in progress.
  private let calls = Atomic<UInt64>(0)
  private static let oneBegun: UInt64 = (1 << 32) + 1
  /// The value of ``calls`` at the last check.
  private let seen = Atomic<UInt64>(0)
  private let page: MappedRegion
  /// The offsets of the locks in the page.
  private let locks: [Int]
  /// The offset of the writer's lock.
  private let writer: Int
  /// LMDB's own descriptor of the lock file.
  private let descriptor: CInt
  /// The threads that the locks named at the last check, and times 2^32 for how many checks: of the writer lock and of
  /// the readers'. Used by the watchdog.
  private let namedWriter = Atomic<UInt64>(0)
  private let namedReader = Atomic<UInt64>(0)
  /// Says of a thread that exists whether it can have the writer lock.
  private let writerTest = Mutex<(@Sendable (Int32) -> Bool)?>(nil)
  private let watch = LostWakeupWatchdog.shared

  /// - Parameter environment: An open environment, in `directory`.
  init?(of environment: OpaquePointer, in directory: String) {
    let descriptor = unsafe larder_env_lock_descriptor(environment)
    let size = Int(larder_mutex_size())
    // Magic, format, two words and the readers' lock; then the writer's, aligned to cache lines.
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
    // The readers' lock is before or after the two words, depending on the release.
    locks = [8, 24, writer].filter { unsafe larder_is_robust_mutex(page.base + $0) == 1 }
    self.page = page
    self.writer = writer
    self.descriptor = descriptor
  }

  /// The thread that holds the writer lock, of any process, or `nil` if the lock is free.
  @inline(__always)
  var writerThread: Int32? {
    let thread = unsafe larder_mutex_holder(page.base + writer)
    return thread == 0 ? nil : thread
  }

  /// Whether another process with reader slots lives, as LMDB asks. The environment is open.
  func isAlive(_ reader: EnvironmentReader) -> Bool {
    larder_reader_lives(descriptor, reader.pid) == 1
  }

  /// Runs a call of LMDB that may wait for one of the locks; without a monitor, runs only the call.
  @inline(__always)
  static func during(_ waits: LockWaitMonitor?, _ call: () -> CInt) -> CInt {
    if let waits {
      // The call is counted before `awake` is read; the watchdog clears and reads in the opposite
      // order.
      waits.calls.wrappingAdd(oneBegun, ordering: .sequentiallyConsistent)
      if !waits.watch.isAwake { waits.watch.wake() }
    }
    let status = call()
    waits?.calls.wrappingSubtract(1, ordering: .relaxed)
    return status
  }

  /// Whether a thread is inside such a call.
  var isAwaited: Bool {
    UInt32(truncatingIfNeeded: calls.load(ordering: .sequentiallyConsistent)) > 0
  }

  /// Wakes a waiter of each lock whose present or former holder wakes none.
  ///
  /// - Returns: Whether a call has started or ended since the last check, or is in progress.
  func look() -> Bool {
    let now = calls.load(ordering: .sequentiallyConsistent)
    if UInt32(truncatingIfNeeded: now) > 0 {
      for lock in locks {
        judge(lock)
        if unsafe larder_mutex_wakes_next(page.base + lock) == 0 {
          unsafe Futex.wakeOne(page.base + lock)
        }
      }
      return true
    }
    return seen.exchange(now, ordering: .relaxed) != now
  }
}

// MARK: A damaged lock

extension LockWaitMonitor {
  /// The time for which a lock must name one thread before it is asked whether that thread can have it.
  private static let patience: UInt64 = 1_000_000_000
  /// The time for which it must name a thread that does not exist.
  private static let shortPatience: UInt64 = 50_000_000

  func judgeWriters(by test: @escaping @Sendable (Int32) -> Bool) {
    writerTest.withLock { $0 = test }
  }

  /// Releases a lock that a call of this process waits for, if it is damaged.
  fileprivate func judge(_ lock: Int) {
    let word = unsafe larder_mutex_word(page.base + lock)
    let thread = larder_mutex_word_holder(word)
    // Waiters may come: only the thread counts.
    let last =
      lock == writer
      ? namedWriter.load(ordering: .relaxed) : namedReader.load(ordering: .relaxed)
    let isSame = UInt32(truncatingIfNeeded: last) == UInt32(bitPattern: thread)
    let checks = isSame && larder_mutex_word_is_held(word) == 1 ? (last >> 32) + 1 : 0
    let now = checks << 32 | UInt64(UInt32(bitPattern: thread))
    if lock == writer {
      namedWriter.store(now, ordering: .relaxed)
    } else {
      namedReader.store(now, ordering: .relaxed)
    }
    guard checks >= 2 else { return }
    if thread == 0 || larder_thread_exists(thread) == 0 { return abandon(lock, word) }
    guard lock == writer, checks >= Self.patience / LostWakeupWatchdog.period,
      let test = writerTest.withLock({ $0 }), !test(thread)
    else { return }
    abandon(lock, word)
  }

  private func abandon(_ lock: Int, _ word: UInt32) {
    guard !hasForeignUser,
      let page = try? MappedRegion(writing: descriptor, count: self.page.count),
      unsafe larder_mutex_abandon(page.base + lock, word) == 1
    else { return }
    unsafe Futex.wakeOne(page.base + lock)
  }

  /// Whether a process of another PID namespace has the file open, or that is unknown.
  ///
  /// Each process with the file open has a lock on byte 0, and one with reader slots on the byte of its number in its
  /// own namespace. The system has the process of each: a number that is another here, or none, is foreign. Of
  /// several with a lock on byte 0 the system names one only, so a foreign program without reader slots (it uses
  /// LMDB directly and has only written) remains unknown if another process has the file open.
  private var hasForeignUser: Bool {
    var ranges: [Range<Int64>] = [0..<Int64(Int32.max) + 1]
    while let range = ranges.popLast() {
      var (start, length, pid): (Int64, Int64, Int32) = (0, 0, 0)
      let found = unsafe larder_find_lock(
        descriptor, range.lowerBound, Int64(range.count), &start, &length, &pid)
      if found == 0 { continue }
      if found < 0 || pid == 0 || (start > 0 && pid > 0 && Int64(pid) != start) { return true }
      // Others are before it or after it: the system does not list locks in the order of their places.
      let end = length == 0 ? range.upperBound : min(start + length, range.upperBound)
      let first = max(start, range.lowerBound)
      if range.lowerBound < first { ranges.append(range.lowerBound..<first) }
      if end < range.upperBound { ranges.append(end..<range.upperBound) }
    }
    return false
  }

  /// Whether the writer lock is free, for the holder of the writer ticket. A damaged lock is released.
  func isFree(for wait: inout WriterLockWait, canHold: (Int32) -> Bool) -> Bool {
    let word = unsafe larder_mutex_word(page.base + writer)
    let thread = larder_mutex_word_holder(word)
    if thread == 0 { return true }
    guard let age = wait.question(about: thread, first: Self.shortPatience, then: Self.patience)
    else {
      return false
    }
    let isDamaged =
      larder_thread_exists(thread) == 0 || age >= Self.patience && !canHold(thread)
    if isDamaged { abandon(writer, word) }
    return false
  }
}

/// The wait of a holder of the writer ticket for LMDB's writer lock.
package struct WriterLockWait {
  private var thread: Int32 = 0
  private var since: UInt64 = 0
  /// The age at which the thread is asked about again: an answer costs system calls, and the wait looks each
  /// millisecond.
  private var next: UInt64 = 0

  package init() {}

  /// Returns for how long the lock has named a thread, in nanoseconds, if it is time to ask about the thread: after
  /// `first`, and each time that `then` has passed.
  fileprivate mutating func question(about thread: Int32, first: UInt64, then: UInt64) -> UInt64? {
    let now = Clocks.monotonicNanoseconds()
    if thread != self.thread { (self.thread, since, next) = (thread, now, first) }
    let age = now &- since
    guard age >= next else { return nil }
    next = max(then, age &+ (next == first ? 0 : then))
    return age
  }
}

/// The watchdog thread of this process's ``LockWaitMonitor`` objects.
///
/// The thread starts with the first call that may wait. It suspends itself until the next such call
/// when there was none between two checks, so a process that does not write causes no wake-ups.
package final class LostWakeupWatchdog: Sendable {
  package static let shared = LostWakeupWatchdog()
  fileprivate static let period: UInt64 = 40_000_000

  /// Whether the thread performs another check before it suspends itself.
  private let awake = Atomic<Bool>(false)
  private let isRunning = Atomic<Bool>(false)
  /// The time of the last failure to create the thread, in nanoseconds.
  private let refused = Atomic<UInt64>(0)
  private let all = Mutex<[LockWaitMonitor]>([])
  private let work = Event()
  // Allocated here: a thread that allocates nothing needs no malloc arena, 64 MiB of address space.
  private let pause = Event()

  private init() {}

  /// Starts or wakes the thread. Tests also call it.
  @inline(__always)
  package var isAwake: Bool { awake.load(ordering: .sequentiallyConsistent) }

  func add(_ waits: LockWaitMonitor) { all.withLock { $0.append(waits) } }

  func remove(_ waits: LockWaitMonitor) {
    // The thread may have held the lock at the fork.
    if ForkGuard.isForkedChild { return }
    all.withLock { $0.removeAll { $0 === waits } }
  }

  @inline(never)
  func wake() {
    // If no thread can be created, retry once per second.
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
      // A call counted by now may have found the thread awake.
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
