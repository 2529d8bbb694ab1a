// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Amounts in bytes: `10.megabytes`.
extension Int {
  /// 1,024 bytes each.
  public var kilobytes: Int { self << 10 }
  /// 1,048,576 bytes each.
  public var megabytes: Int { self << 20 }
  /// 1,073,741,824 bytes each.
  public var gigabytes: Int { self << 30 }

  /// As NamadaNativefier writes it.
  public var kiloByte: Int { kilobytes }
  /// The number of bytes of this many megabytes.
  public var megaByte: Int { megabytes }
  /// The number of bytes of this many gigabytes.
  public var gigaByte: Int { gigabytes }

  /// As Vellum writes it.
  public var kiloBytes: Int { kilobytes }
  /// The number of bytes of this many megabytes.
  public var megaBytes: Int { megabytes }
  /// The number of bytes of this many gigabytes.
  public var gigaBytes: Int { gigabytes }
}
