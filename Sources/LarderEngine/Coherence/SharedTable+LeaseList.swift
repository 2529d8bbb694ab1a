// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A computation in flight, as it is displayed.
package struct LeaseDescription: Sendable, Hashable {
  /// The process slot of the process that computes.
  package let process: Int
  package let namespace: UInt32
  package let hash: UInt64
  /// The time at which it began, in milliseconds since 1970.
  package let since: Int64
  /// The key, or its first 30 bytes.
  package let key: EncodedKey
  /// Whether the key is longer than ``key``.
  package let isKeyCut: Bool
  /// Whether a write of the key has made the result invalid.
  package let isCancelled: Bool
}

extension SharedTable {
  private static var keyBytes: Int { 30 }

  /// Stores what is displayed of a lease. The caller has claimed its slot.
  func describe(lease index: Int, _ key: EncodedKey?) {
    let offset = SharedTableLayout.leases + index * SharedTableLayout.leaseSize
    unsafe word(offset + SharedTableLayout.leaseSince).pointee.store(
      UInt64(bitPattern: Clocks.wallMilliseconds()), ordering: .relaxed)
    var words = [UInt64](repeating: 0, count: 4)
    if let key {
      words[0] = UInt64(key.tag) | UInt64(min(key.bytes.count, 255)) << 8
      for (position, byte) in key.bytes.prefix(Self.keyBytes).enumerated() {
        words[(position + 2) / 8] |= UInt64(byte) << UInt64((position + 2) % 8 * 8)
      }
    }
    for position in 0..<4 {
      unsafe word(offset + SharedTableLayout.leaseKey + 8 * position).pointee.store(
        words[position], ordering: .relaxed)
    }
  }

  /// The leases of all processes.
  package var leaseList: [LeaseDescription] {
    (0..<SharedTableLayout.leaseCount).compactMap { index in
      let offset = SharedTableLayout.leases + index * SharedTableLayout.leaseSize
      let state = unsafe word(offset).pointee.load(ordering: .acquiring)
      let owner = Int(state >> 8 & 0xFFFF) - 1
      guard state & 0xFF == 2 || state & 0xFF == 3, (0..<shape.processSlots).contains(owner) else {
        return nil
      }
      func load(_ place: Int) -> UInt64 {
        unsafe word(offset + place).pointee.load(ordering: .relaxed)
      }
      let words = (0..<4).map { load(SharedTableLayout.leaseKey + 8 * $0) }
      let length = Int(words[0] >> 8 & 0xFF)
      let bytes = (2..<2 + min(length, Self.keyBytes)).map {
        UInt8(truncatingIfNeeded: words[$0 / 8] >> UInt64($0 % 8 * 8))
      }
      return LeaseDescription(
        process: owner,
        namespace: UInt32(truncatingIfNeeded: load(SharedTableLayout.leaseNamespace)),
        hash: load(SharedTableLayout.leaseHash),
        since: Int64(bitPattern: load(SharedTableLayout.leaseSince)),
        key: EncodedKey(tag: UInt8(truncatingIfNeeded: words[0]), bytes: bytes),
        isKeyCut: length > Self.keyBytes, isCancelled: state & 0xFF == 3)
    }
  }
}
