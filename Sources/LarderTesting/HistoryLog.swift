// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The operations of a process must be known even if it was killed in the middle of one. So each
// process maps a separate file and records an operation before it starts; the pages belong to the
// kernel and survive the process. (A crash of the operating system may lose them.)
//
//     offset  size  header (64 bytes, native byte order)
//          0     8  magic, "LARDHIST"
//          8     4  version, 3
//         12     4  size of a record, 48
//         16     8  capacity, in records
//         24     8  records taken (atomic; may exceed the capacity by the number of threads)
//         32    32  zero
//
//     offset  size  record
//          0     8  state: 0 empty, 1 pending, 2 ended, 3 discarded; plus 256 for a read,
//                  512 for a replacement and 768 for an increment (atomic)
//          8     8  key
//         16     8  value; of an increment the number that it adds
//         24     8  start, nanoseconds of CLOCK_MONOTONIC
//         32     8  end
//         40     8  the value that a replacement or an increment read
//
// The state is stored last with release ordering: a record whose process was killed before that is
// still empty, or still pending. The file appears under its name, which ends in
// ".history", when its header is complete. It is sparse: keep histories where the disk is not full.

import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A log of the operations of a process that survives the process.
///
/// ```swift
/// // in each worker
/// let log = try HistoryLog(directory: histories)
/// while let entry = log.begin(.write, key: key, value: value) {
///   try cache.setValue(value, forKey: key)
///   log.end(entry)
/// }
/// // in the test, after any number of kills
/// #expect(Linearizability.violations(in: try HistoryLog.operations(in: histories)) == [])
/// ```
///
/// Any number of threads may use one log.
// Sendable: all threads share the mapping. An atomic add gives each record to one thread.
@safe public final class HistoryLog: @unchecked Sendable {
  /// An operation in progress.
  public struct Entry: Sendable {
    fileprivate let index: Int
  }

  /// The error of a file that is not a history.
  public struct DamagedLogError: Error, CustomStringConvertible {
    /// The file and the problem.
    public let description: String
  }

  private enum State {
    static let pending: UInt64 = 1
    static let ended: UInt64 = 2
    static let discarded: UInt64 = 3
    static let kinds: [Linearizability.Operation.Kind] = [.write, .read, .replacement, .increment]

    static func kind(_ kind: Linearizability.Operation.Kind) -> UInt64 {
      UInt64(kinds.firstIndex(of: kind)!) << 8
    }
  }

  private static let magic: UInt64 = 0x5453_4948_4452_414c
  private static let version: UInt32 = 3
  private static let headerSize = 64
  private static let recordSize = 48
  private static let suffix = ".history"
  private static let serial = Atomic<Int>(0)

  /// The path of the log file.
  public let path: String
  private let capacity: Int
  private let memory: UnsafeMutableRawPointer

  /// Creates a log in an existing directory, which may contain logs of any number of processes.
  /// `capacity` is the number of operations, of 48 bytes each.
  public init(directory: String, capacity: Int = 1 << 20) throws(SystemCallError) {
    let number = Self.serial.wrappingAdd(1, ordering: .relaxed).newValue
    let name = "\(getpid())-\(number)-\(POSIX.monotonicNanoseconds())"
    path = "\(directory)/\(name)\(Self.suffix)"
    self.capacity = capacity
    let size = Self.headerSize + capacity * Self.recordSize
    unsafe memory = try Self.map("\(directory)/\(name).new", size: size)
    unsafe memory.storeBytes(of: Self.magic, as: UInt64.self)
    unsafe memory.storeBytes(of: Self.version, toByteOffset: 8, as: UInt32.self)
    unsafe memory.storeBytes(of: UInt32(Self.recordSize), toByteOffset: 12, as: UInt32.self)
    unsafe memory.storeBytes(of: UInt64(capacity), toByteOffset: 16, as: UInt64.self)
    try TestFiles.move("\(directory)/\(name).new", to: path)
  }

  deinit { _ = unsafe munmap(memory, Self.headerSize + capacity * Self.recordSize) }

  /// Records an operation that is about to begin, with the time.
  ///
  /// Until it has ended, the operation is pending: it may or may not have taken effect. Leave it
  /// pending if a write failed with an unknown outcome.
  ///
  /// - Returns: The entry, or `nil` if the log is full. Do not run an operation that is not logged.
  public func begin(
    _ kind: Linearizability.Operation.Kind, key: UInt64, value: UInt64 = 0
  ) -> Entry? {
    let index = unsafe Int(word(24).pointee.wrappingAdd(1, ordering: .relaxed).oldValue)
    if index >= capacity { return nil }
    let offset = Self.headerSize + index * Self.recordSize
    unsafe memory.storeBytes(of: key, toByteOffset: offset + 8, as: UInt64.self)
    unsafe memory.storeBytes(of: value, toByteOffset: offset + 16, as: UInt64.self)
    let start = Linearizability.now()
    unsafe memory.storeBytes(of: start, toByteOffset: offset + 24, as: UInt64.self)
    unsafe word(offset).pointee.store(
      State.pending | State.kind(kind), ordering: .releasing)
    return Entry(index: index)
  }

  /// Records that an operation has succeeded, the value that a read returned, and the one that a
  /// replacement or an increment read.
  public func end(_ entry: Entry, value: UInt64? = nil, old: UInt64? = nil) {
    let now = Linearizability.now()
    let offset = Self.headerSize + entry.index * Self.recordSize
    unsafe memory.storeBytes(of: now, toByteOffset: offset + 32, as: UInt64.self)
    if let value {
      unsafe memory.storeBytes(of: value, toByteOffset: offset + 16, as: UInt64.self)
    }
    if let old { unsafe memory.storeBytes(of: old, toByteOffset: offset + 40, as: UInt64.self) }
    setState(State.ended, at: offset)
  }

  /// Records that an operation certainly had no effect, as if it had never begun.
  public func discard(_ entry: Entry) {
    setState(State.discarded, at: Self.headerSize + entry.index * Self.recordSize)
  }

  private func setState(_ state: UInt64, at offset: Int) {
    let kind = unsafe word(offset).pointee.load(ordering: .relaxed) & 0x300
    unsafe word(offset).pointee.store(state | kind, ordering: .releasing)
  }

  private func word(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (memory + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  private static func map(
    _ path: String, size: Int
  ) throws(SystemCallError) -> UnsafeMutableRawPointer {
    try TestFiles.write([], to: path)
    try TestFiles.truncate(path, to: size)
    let descriptor = try POSIX.open(path, O_RDWR)
    defer { close(descriptor) }
    let memory = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
    guard let memory = unsafe memory, unsafe memory != UnsafeMutableRawPointer(bitPattern: -1)
    else { throw POSIX.failure("mmap") }
    return unsafe memory
  }

  // MARK: - Reading

  /// Returns all operations of all logs in a directory, in no order.
  ///
  /// Call it after the processes have exited. For a running one, it returns the operations so far.
  public static func operations(
    in directory: String
  ) throws -> [Linearizability.Operation] {
    var operations: [Linearizability.Operation] = []
    for name in TestFiles.names(in: directory) where name.hasSuffix(suffix) {
      let path = "\(directory)/\(name)"
      try append(try TestFiles.contents(of: path), of: path, to: &operations)
    }
    return operations
  }

  private static func append(
    _ bytes: [UInt8], of path: String, to operations: inout [Linearizability.Operation]
  ) throws(DamagedLogError) {
    func number(_ offset: Int) -> UInt64 {
      unsafe bytes.withUnsafeBytes {
        unsafe $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
      }
    }
    let second = UInt64(version) | UInt64(recordSize) << 32
    guard bytes.count >= headerSize, number(0) == magic, number(8) == second,
      number(16) <= (bytes.count - headerSize) / recordSize
    else {
      throw DamagedLogError(description: "\(path) is no history of this version, or was cut short.")
    }
    for index in 0..<Int(min(number(24), number(16))) {
      let offset = headerSize + index * recordSize
      let state = number(offset) & 0xff
      if state != State.pending && state != State.ended { continue }
      operations.append(
        Linearizability.Operation(
          State.kinds[Int(number(offset) >> 8 & 3)], key: number(offset + 8),
          value: number(offset + 16), old: number(offset + 40),
          start: number(offset + 24),
          end: state == State.ended ? number(offset + 32) : Linearizability.pending))
    }
  }
}
