// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// IEEE 754 binary16 by its bits: `Float16` does not exist on every platform.
package enum HalfFloat {
  /// The half that equals a float exactly; all NaNs become the one quiet NaN.
  package static func bits(exactly value: Float) -> UInt16? {
    if value.isNaN { return 0x7e00 }
    let bits = value.bitPattern
    let sign = UInt16(truncatingIfNeeded: bits >> 16) & 0x8000
    let fraction = bits & 0x007f_ffff
    let exponent = Int((bits >> 23) & 0xff) - 127
    switch exponent {
    case -14...15:
      guard fraction & 0x1fff == 0 else { return nil }
      let biased = UInt16(truncatingIfNeeded: exponent + 15) << 10
      return sign | biased | UInt16(truncatingIfNeeded: fraction >> 13)
    case -24 ... -15:
      // A subnormal half: the leading one becomes explicit.
      let whole = fraction | 0x0080_0000
      let shift = UInt32(-exponent - 1)
      guard whole & ((1 << shift) - 1) == 0 else { return nil }
      return sign | UInt16(truncatingIfNeeded: whole >> shift)
    case 128:
      return sign | 0x7c00
    case -127:
      return fraction == 0 ? sign : nil
    default:
      return nil
    }
  }

  /// The value of a half.
  package static func value(bits: UInt16) -> Double {
    let fraction = Double(bits & 0x03ff)
    let exponent = Int((bits >> 10) & 0x1f)
    let magnitude: Double
    switch exponent {
    case 0: magnitude = fraction * 0x1p-24
    case 31: magnitude = fraction == 0 ? .infinity : .nan
    default:
      magnitude = Double(sign: .plus, exponent: exponent - 15, significand: 1 + fraction / 1024)
    }
    return bits & 0x8000 == 0 ? magnitude : -magnitude
  }
}
