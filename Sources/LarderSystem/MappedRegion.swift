// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// A mapping of memory, shared with every process that maps the same file or of this process alone;
/// unmapped with the last reference.
@safe
package final class MappedRegion {
  /// The first byte. Valid as long as this object lives.
  package let base: UnsafeMutableRawPointer
  package let count: Int
  private let isZeroInForkedChild: Bool

  /// Maps the first `count` bytes of a file, for reading and writing by every process.
  ///
  /// - Parameter isZeroInForkedChild: Whether a forked child gets zeros in place of the mapping.
  package init(
    sharing file: OwnedFile, count: Int, isZeroInForkedChild: Bool = false
  ) throws(SystemError) {
    guard
      let address = unsafe larder_map(count, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor)
    else { throw .last("mmap", file.path) }
    unsafe self.base = address
    self.count = count
    self.isZeroInForkedChild = isZeroInForkedChild
    if isZeroInForkedChild { unsafe ForkGuard.register(address, count: count) }
  }

  /// Maps the first `count` bytes of an open file, for reading data that other processes write.
  package init(reading descriptor: CInt, count: Int) throws(SystemError) {
    guard let address = unsafe larder_map(count, PROT_READ, MAP_SHARED, descriptor) else {
      throw .last("mmap")
    }
    unsafe self.base = address
    self.count = count
    isZeroInForkedChild = false
  }

  /// Maps the first `count` bytes of an open file, for reading and writing by every process.
  package init(writing descriptor: CInt, count: Int) throws(SystemError) {
    guard let address = unsafe larder_map(count, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor)
    else { throw .last("mmap") }
    unsafe self.base = address
    self.count = count
    isZeroInForkedChild = false
  }

  /// Maps the first `count` bytes of a file, which no process changes or truncates meanwhile. A page that is written
  /// to becomes one of this process alone.
  package init(changing file: OwnedFile, count: Int) throws(SystemError) {
    guard
      let address = unsafe larder_map(count, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.descriptor)
    else { throw .last("mmap", file.path) }
    unsafe self.base = address
    self.count = count
    isZeroInForkedChild = false
  }

  /// Copies the first `count` bytes of a file, which other processes may write or truncate, to memory
  /// of this process alone. The rest of its `size` bytes is zero.
  package convenience init(copying file: OwnedFile, count: Int, size: Int) throws(SystemError) {
    try self.init(zeros: size)
    let bytes = try file.read(count: min(count, size), at: 0)
    unsafe bytes.withUnsafeBytes { bytes in
      unsafe UnsafeMutableRawBufferPointer(start: base, count: size).copyMemory(from: bytes)
    }
  }

  /// Maps zeros for this process alone. A page of them takes memory once it is written to.
  package init(zeros count: Int) throws(SystemError) {
    guard
      let address = unsafe larder_map(
        count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1)
    else { throw .last("mmap", "memory") }
    unsafe self.base = address
    self.count = count
    isZeroInForkedChild = false
  }

  deinit {
    if isZeroInForkedChild { unsafe ForkGuard.unregister(base) }
    unsafe munmap(base, count)
  }
}

// The pointer and the length never change; the memory is accessed through atomics.
extension MappedRegion: @unchecked Sendable {}
