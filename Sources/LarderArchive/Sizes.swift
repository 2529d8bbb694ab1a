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
  public var megaByte: Int { megabytes }
  public var gigaByte: Int { gigabytes }

  /// As Vellum writes it.
  public var kiloBytes: Int { kilobytes }
  public var megaBytes: Int { megabytes }
  public var gigaBytes: Int { gigabytes }
}
