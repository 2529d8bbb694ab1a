// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Synchronization

// THE BOARD'S SECOND HALF
//
//           160 … 223  objects: issued, acknowledged, newest deletion issued
//           224 … 231  keys of a unique index: who holds it
//           232 … 247  cars: the newest issued, acknowledged; epoch << 32 | number
//           248        the epoch of the two programs, less one: nothing written is of epoch zero
//
// A holder puts itself down after its claim is committed and strikes itself out before it gives the
// key up; so whoever has just been given the key finds nobody there.

extension StormOracle {
  enum Item: Int {
    case issued = 0
    case acknowledged, deletionIssued
  }

  static let claimCount = 8
  static let carCount = 16

  func item(_ key: Int, _ field: Item) -> UInt64 {
    unsafe word(160 + key, field.rawValue).pointee.load(ordering: .sequentiallyConsistent)
  }

  func issueItem(_ key: Int) -> UInt64 {
    unsafe word(160 + key, 0).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
  }

  func raiseItem(_ key: Int, _ field: Item, to value: UInt64) {
    unsafe word(160 + key, field.rawValue).pointee.max(value, ordering: .sequentiallyConsistent)
  }

  // MARK: Unique keys

  /// Puts a holder down.
  ///
  /// - Returns: Who was there; zero: nobody.
  func hold(_ key: Int, _ holder: UInt64) -> UInt64 {
    unsafe word(224 + key, 0).pointee.exchange(holder, ordering: .sequentiallyConsistent)
  }

  /// Strikes a holder out.
  func letGo(_ key: Int, _ holder: UInt64) {
    _ = unsafe word(224 + key, 0).pointee.compareExchange(
      expected: holder, desired: 0, ordering: .sequentiallyConsistent)
  }

  // MARK: Two programs

  func car(_ key: Int, _ field: Item) -> UInt64 {
    unsafe word(232 + key, field.rawValue).pointee.load(ordering: .sequentiallyConsistent)
  }

  func raiseCar(_ key: Int, _ field: Item, to value: UInt64) {
    unsafe word(232 + key, field.rawValue).pointee.max(value, ordering: .sequentiallyConsistent)
  }

  var epoch: UInt64 {
    unsafe word(248, 0).pointee.load(ordering: .sequentiallyConsistent) + 1
  }

  func endEpoch(_ epoch: UInt64) {
    _ = unsafe word(248, 0).pointee.compareExchange(
      expected: epoch - 1, desired: epoch, ordering: .sequentiallyConsistent)
  }
}
