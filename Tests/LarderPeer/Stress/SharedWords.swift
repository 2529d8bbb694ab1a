// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem
import Synchronization

/// A mapped file of 64-bit atomic words that outlives every process that writes to it.
///
/// The parent and its workers exchange progress through it: a killed process leaves its last words.
/// Every access is sequentially consistent.
final class SharedWords: Sendable {
  private let region: MappedRegion
  private let size: Int

  /// Maps the file at `path`, and creates it with zeroed words if it is missing.
  init(path: String, size: Int = 4096) throws {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    if try file.status.size < size { try file.preallocate(size) }
    region = try MappedRegion(sharing: file, count: size)
    self.size = size
  }

  private func word(_ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    precondition(index >= 0 && index < size / 8, "word \(index) is outside of the mapped file")
    return unsafe (region.base + index * 8).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  subscript(index: Int) -> UInt64 {
    get { unsafe word(index).pointee.load(ordering: .sequentiallyConsistent) }
    set { unsafe word(index).pointee.store(newValue, ordering: .sequentiallyConsistent) }
  }

  /// Adds to a word and returns the sum.
  @discardableResult
  func add(_ index: Int, _ amount: UInt64 = 1) -> UInt64 {
    unsafe word(index).pointee.wrappingAdd(amount, ordering: .sequentiallyConsistent).newValue
  }

  func raise(_ index: Int, to value: UInt64) {
    unsafe word(index).pointee.max(value, ordering: .sequentiallyConsistent)
  }

  func lower(_ index: Int, to value: UInt64) {
    unsafe word(index).pointee.min(value, ordering: .sequentiallyConsistent)
  }

  /// Stores a value and returns the previous one.
  func exchange(_ index: Int, _ value: UInt64) -> UInt64 {
    unsafe word(index).pointee.exchange(value, ordering: .sequentiallyConsistent)
  }

  /// Stores `value` if the word is `expected`, and returns the previous value.
  @discardableResult
  func replace(_ index: Int, _ expected: UInt64, with value: UInt64) -> UInt64 {
    unsafe word(index).pointee.compareExchange(
      expected: expected, desired: value, ordering: .sequentiallyConsistent
    ).original
  }

  // MARK: Bytes

  /// Copies as many bytes as fit into the file, from a word on, and returns their count.
  func write(_ bytes: [UInt8], at index: Int) -> Int {
    let count = min(bytes.count, size - index * 8)
    unsafe bytes.withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return }
      unsafe (region.base + index * 8).copyMemory(from: base, byteCount: count)
    }
    return count
  }

  func bytes(at index: Int, count: Int) -> [UInt8] {
    precondition(count <= size - index * 8, "\(count) bytes are outside of the mapped file")
    return unsafe Array(UnsafeRawBufferPointer(start: region.base + index * 8, count: count))
  }
}
#endif
