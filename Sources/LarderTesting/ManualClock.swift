// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A clock of one process is a word of its memory. A shared one is a file of eight bytes that every
// process maps: the time with the highest bit inverted, so that the zeros of a new file mean an unset
// clock.

public import Larder
import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A clock that only changes when a test sets it, in milliseconds since 1970.
///
/// With it as the clock of a store, tests of expiration need no sleep:
///
/// ```swift
/// let clock = ManualClock()
/// let store = try TemporaryStore(StoreOptions(clock: clock.storeClock))
/// clock.advance(by: .seconds(3600))
/// ```
///
/// Processes that share a store should share the clock: see ``init(sharedAt:milliseconds:)``.
/// Every thread and process sees a change at its next read.
// Sendable: the word is accessed by atomic operations only, and belongs to this object or the kernel.
@safe public final class ManualClock: @unchecked Sendable {
  private let word: UnsafeMutablePointer<Atomic<UInt64>>
  private let isMapped: Bool

  private static let size = MemoryLayout<UInt64>.size

  /// Creates a clock of this process. The default start is in November 2023.
  public init(milliseconds: Int64 = 1_700_000_000_000) {
    unsafe word = .allocate(capacity: 1)
    unsafe word.initialize(to: Atomic(Self.stored(milliseconds)))
    isMapped = false
  }

  /// Opens a clock that all processes with the same path share.
  ///
  /// ```swift
  /// let clock = try ManualClock(sharedAt: store.appending("clock"))
  /// let worker = try TestExecutable("worker").start([store.path, store.appending("clock")])
  /// clock.advance(by: .seconds(3600))        // for the worker too
  /// ```
  ///
  /// - Parameters:
  ///   - path: The path of a file of eight bytes. The first process creates it.
  ///   - milliseconds: The start, which the first process sets.
  /// - Throws: ``SystemCallError`` if the file cannot be opened or created, or is not a clock
  ///   (`EINVAL`).
  public init(
    sharedAt path: String, milliseconds: Int64 = 1_700_000_000_000
  ) throws(SystemCallError) {
    let descriptor = try POSIX.open(path, O_RDWR | O_CREAT)
    defer { close(descriptor) }
    // Processes that open it concurrently do the same; only the first exchange succeeds.
    switch lseek(descriptor, 0, SEEK_END) {
    case off_t(Self.size): break
    case 0: if ftruncate(descriptor, off_t(Self.size)) != 0 { throw POSIX.failure("ftruncate") }
    default: throw SystemCallError(call: "use \(path) as a clock", errno: EINVAL)
    }
    let memory = unsafe mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
    guard let memory = unsafe memory, unsafe memory != UnsafeMutableRawPointer(bitPattern: -1)
    else { throw POSIX.failure("mmap") }
    unsafe word = memory.assumingMemoryBound(to: Atomic<UInt64>.self)
    isMapped = true
    _ = unsafe word.pointee.compareExchange(
      expected: 0, desired: Self.stored(milliseconds), ordering: .sequentiallyConsistent)
  }

  deinit {
    if isMapped {
      _ = unsafe munmap(word, Self.size)
    } else {
      unsafe word.deinitialize(count: 1)
      unsafe word.deallocate()
    }
  }

  /// The current time of the clock.
  public var now: Int64 {
    Self.time(unsafe word.pointee.load(ordering: .sequentiallyConsistent))
  }

  /// The clock in the form that a store accepts.
  public var storeClock: StoreClock { StoreClock { self.now } }

  /// Advances the clock, or sets it back, and returns the new time. Fractions of a millisecond are
  /// truncated.
  @discardableResult
  public func advance(by duration: Duration) -> Int64 {
    let (seconds, attoseconds) = duration.components
    let amount = seconds * 1000 + attoseconds / 1_000_000_000_000_000
    return Self.time(
      unsafe word.pointee.wrappingAdd(
        UInt64(bitPattern: amount), ordering: .sequentiallyConsistent
      ).newValue)
  }

  /// Sets the clock to a time, as a change of the system time does.
  public func set(to milliseconds: Int64) {
    unsafe word.pointee.store(Self.stored(milliseconds), ordering: .sequentiallyConsistent)
  }

  private static func stored(_ milliseconds: Int64) -> UInt64 {
    UInt64(bitPattern: milliseconds) ^ 1 << 63
  }

  private static func time(_ stored: UInt64) -> Int64 { Int64(bitPattern: stored ^ 1 << 63) }
}
