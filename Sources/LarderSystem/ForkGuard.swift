// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import Synchronization

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

// FORK WITHOUT EXEC
//
// A forked child shares its parent's LMDB reader slots and open-file-description locks; using or
// even keeping them breaks the parent. Three measures prevent that:
//
// * A separate page that the kernel replaces by zeros in a child (MADV_WIPEONFORK). One load shows
//   whether this process is a fork; `getpid()` would cost a system call.
// * A `pthread_atfork` child handler closes every descriptor that carries a lock, so that a lock
//   does not outlive its holder in a child that does not use it.
//
// * The same handler replaces by zeros each mapping with which cached values are validated. With
//   zeros, no validation succeeds; so even a hit in memory ends at the error, and the child can
//   neither serve values whose invalidation it misses nor write into the parent's table.

/// Detects use after `fork` and drops inherited locks in the child.
package enum ForkGuard {
  private static let capacity = 512

  // Leaked on purpose: the child handler reads it, at any time, until the process ends.
  // [0]: 1 in the process that opened, 0 in a forked child.
  private nonisolated(unsafe) static let page: UnsafeMutablePointer<UInt8>? = {
    let length = Int(getpagesize())
    guard
      let address = unsafe larder_map(
        length, PROT_READ | PROT_WRITE, MAP_PRIVATE | CInt(MAP_ANON), -1)
    else { return nil }
    guard unsafe larder_wipe_on_fork(address, length) == 0 else { return nil }
    unsafe address.storeBytes(of: 1, as: UInt8.self)
    pthread_atfork(nil, nil) { ForkGuard.childAfterFork() }
    return unsafe address.assumingMemoryBound(to: UInt8.self)
  }()

  // Descriptor numbers, -1 when free. A plain array of atomics: the child handler may not take a
  // lock that another thread of the parent held when it forked.
  private nonisolated(unsafe) static let descriptors: UnsafeMutablePointer<Atomic<CInt>> = {
    let table = UnsafeMutablePointer<Atomic<CInt>>.allocate(capacity: capacity)
    for index in 0..<capacity { unsafe (table + index).initialize(to: Atomic(-1)) }
    return unsafe table
  }()

  // Addresses and lengths of mappings, alternating; zero when free.
  private static let regionCapacity = 1024
  private nonisolated(unsafe) static let regions: UnsafeMutablePointer<Atomic<UInt>> = {
    let table = UnsafeMutablePointer<Atomic<UInt>>.allocate(capacity: 2 * regionCapacity)
    for index in 0..<(2 * regionCapacity) { unsafe (table + index).initialize(to: Atomic(0)) }
    return unsafe table
  }()

  /// Whether this process is a fork of the one that first opened a store.
  package static var isForkedChild: Bool {
    guard let page = unsafe page else { return false }
    return unsafe page.pointee == 0
  }

  /// The byte that is zero in a forked child, at one address until the process ends, or `nil` if
  /// the system has no such page.
  package static var mark: UnsafePointer<UInt8>? { unsafe UnsafePointer(page) }

  /// Called once before the first descriptor that matters is opened.
  package static func activate() {
    _ = unsafe page
    _ = unsafe descriptors
    _ = unsafe regions
  }

  static func register(_ region: UnsafeMutableRawPointer, count: Int) {
    activate()
    let address = UInt(bitPattern: region)
    for index in 0..<regionCapacity {
      let (exchanged, _) = unsafe regions[2 * index].compareExchange(
        expected: 0, desired: address, ordering: .acquiringAndReleasing)
      guard exchanged else { continue }
      unsafe regions[2 * index + 1].store(UInt(count), ordering: .releasing)
      return
    }
  }

  /// Removes a mapping from the list before it is unmapped.
  static func unregister(_ region: UnsafeMutableRawPointer) {
    let address = UInt(bitPattern: region)
    for index in 0..<regionCapacity
    where unsafe regions[2 * index].load(ordering: .relaxed) == address {
      unsafe regions[2 * index + 1].store(0, ordering: .releasing)
      unsafe regions[2 * index].store(0, ordering: .releasing)
      return
    }
  }

  static func register(_ descriptor: CInt) {
    activate()
    for index in 0..<capacity {
      let (exchanged, _) = unsafe descriptors[index].compareExchange(
        expected: -1, desired: descriptor, ordering: .acquiringAndReleasing)
      if exchanged { return }
    }
  }

  /// Removes a descriptor from the list; returns `false` if the child handler has closed it.
  static func unregister(_ descriptor: CInt) -> Bool {
    if isForkedChild { return false }
    for index in 0..<capacity {
      let (exchanged, _) = unsafe descriptors[index].compareExchange(
        expected: descriptor, desired: -1, ordering: .acquiringAndReleasing)
      if exchanged { break }
    }
    return true
  }

  private static func childAfterFork() {
    for index in 0..<capacity {
      let descriptor = unsafe descriptors[index].exchange(-1, ordering: .relaxed)
      if descriptor >= 0 { close(descriptor) }
    }
    for index in 0..<regionCapacity {
      let address = unsafe regions[2 * index].load(ordering: .relaxed)
      let count = unsafe regions[2 * index + 1].load(ordering: .relaxed)
      guard count > 0, let place = unsafe UnsafeMutableRawPointer(bitPattern: address) else {
        continue
      }
      // A failure leaves the parent's mapping, which is the state without this handler.
      _ = unsafe mmap(
        place, Int(count), PROT_READ | PROT_WRITE, MAP_PRIVATE | CInt(MAP_ANON) | MAP_FIXED, -1, 0)
    }
  }
}
