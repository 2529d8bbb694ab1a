// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The tags that values are written with.
enum CBORTag {
  static let epochTime: UInt64 = 1
  static let positiveBigInteger: UInt64 = 2
  static let negativeBigInteger: UInt64 = 3
  static let decimalFraction: UInt64 = 4
  static let uri: UInt64 = 32
  static let uuid: UInt64 = 37
  static let extendedTime: UInt64 = 1001
}
