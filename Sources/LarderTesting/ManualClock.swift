// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A clock of one process is a word of its memory. A shared one is a file of eight bytes that every
// process maps: the time, with the highest bit turned over, so that the zeros of a new file mean
// that nobody has set it yet.

public import Larder
import Synchronization

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A clock that stands still until it is told otherwise: milliseconds since 1970.
///
/// Give it to a store, and no test of expiry ever sleeps:
///
/// ```swift
/// let clock = ManualClock()
/// let store = try TemporaryStore(StoreOptions(clock: clock.storeClock))
/// clock.advance(by: .seconds(3600))
/// ```
///
/// Processes that share a store should share the clock: see ``init(sharedAt:milliseconds:)``.
/// Every thread and process sees a change with its next look.
// The word is reached by atomic operations only, and belongs to this object or to the kernel.
@safe public final class ManualClock: @unchecked Sendable {
  private let word: UnsafeMutablePointer<Atomic<UInt64>>
  private let isMapped: Bool

  private static let size = MemoryLayout<UInt64>.size

  /// A clock of this process. It starts at a moment in November 2023 unless told otherwise.
  public init(milliseconds: Int64 = 1_700_000_000_000) {
    unsafe word = .allocate(capacity: 1)
    unsafe word.initialize(to: Atomic(Self.stored(milliseconds)))
    isMapped = false
  }

  /// A clock that every process has that names the same file.
  ///
  /// ```swift
  /// let clock = try ManualClock(sharedAt: store.appending("clock"))
  /// let worker = try TestExecutable("worker").start([store.path, store.appending("clock")])
  /// clock.advance(by: .seconds(3600))        // for the worker too
  /// ```
  ///
  /// - Parameters:
  ///   - path: A file of eight bytes, made by whoever comes first.
  ///   - milliseconds: Where it starts. It counts for whoever comes first; the others find the
  ///     clock as it is.
  /// - Throws: ``SystemCallError`` when the file can be neither opened nor made, or is no clock
  ///   (`EINVAL`).
  public init(
    sharedAt path: String, milliseconds: Int64 = 1_700_000_000_000
  ) throws(SystemCallError) {
    let descriptor = try POSIX.open(path, O_RDWR | O_CREAT)
    defer { close(descriptor) }
    // Whoever comes at the same moment does the same; only the first exchange counts.
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

  /// The time it shows.
  public var now: Int64 {
    Self.time(unsafe word.pointee.load(ordering: .sequentiallyConsistent))
  }

  /// The same clock, as a store takes it.
  public var storeClock: StoreClock { StoreClock { self.now } }

  /// Moves it, also backwards, and returns the new time. What is finer than a millisecond is cut.
  @discardableResult
  public func advance(by duration: Duration) -> Int64 {
    let (seconds, attoseconds) = duration.components
    let amount = seconds * 1000 + attoseconds / 1_000_000_000_000_000
    return Self.time(
      unsafe word.pointee.wrappingAdd(
        UInt64(bitPattern: amount), ordering: .sequentiallyConsistent
      ).newValue)
  }

  /// Sets it to a time of its own, as somebody with a settings panel would.
  public func set(to milliseconds: Int64) {
    unsafe word.pointee.store(Self.stored(milliseconds), ordering: .sequentiallyConsistent)
  }

  private static func stored(_ milliseconds: Int64) -> UInt64 {
    UInt64(bitPattern: milliseconds) ^ 1 << 63
  }

  private static func time(_ stored: UInt64) -> Int64 { Int64(bitPattern: stored ^ 1 << 63) }
}
