// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Sizes in bytes: `10.megabytes`.
extension Int {
  /// The size of this many units of 1,024 bytes.
  public var kilobytes: Int { self << 10 }
  /// The size of this many units of 1,048,576 bytes.
  public var megabytes: Int { self << 20 }
  /// The size of this many units of 1,073,741,824 bytes.
  public var gigabytes: Int { self << 30 }

  /// The same as ``kilobytes``, in the spelling of NamadaNativefier.
  public var kiloByte: Int { kilobytes }
  /// The number of bytes of this many megabytes.
  public var megaByte: Int { megabytes }
  /// The number of bytes of this many gigabytes.
  public var gigaByte: Int { gigabytes }

  /// The same as ``kilobytes``, in the spelling of Vellum.
  public var kiloBytes: Int { kilobytes }
  /// The number of bytes of this many megabytes.
  public var megaBytes: Int { megabytes }
  /// The number of bytes of this many gigabytes.
  public var gigaBytes: Int { gigabytes }
}
