// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import Testing

@Suite struct ByteScratchTests {
  @Test(arguments: [1, 16, 433, 5000])
  func `Scratch bytes are zero, and hold what is stored where it is stored`(count: Int) {
    for _ in 0..<3 {
      let bytes = withByteScratch(count) { scratch in
        let before = scratch.span.copied()
        #expect(before == [UInt8](repeating: 0, count: count))
        scratch.store(0xA1 as UInt8, at: count - 1)
        if count >= 16 {
          scratch.store(0x0102_0304_0506_0708 as UInt64, at: 3)
          scratch.store([9, 8, 7], at: 12)
          scratch.store([], at: count)
        }
        return scratch.span.copied()
      }
      var expected = [UInt8](repeating: 0, count: count)
      if count >= 16 {
        expected.replaceSubrange(3..<15, with: [8, 7, 6, 5, 4, 3, 2, 1, 0, 9, 8, 7])
      }
      expected[count - 1] = 0xA1
      #expect(bytes == expected)
    }
  }

  @Test func `The first of the scratch bytes are those of all`() {
    withByteScratch(8) { scratch in
      scratch.store([1, 2, 3, 4, 5, 6, 7, 8], at: 0)
      let first = scratch.prefix(3).copied()
      #expect(first == [1, 2, 3])
      #expect(scratch.prefix(0).byteCount == 0)
    }
  }

  @Test func `A hash with zeros in a place is that of bytes that have them, whatever the length`() {
    for count in [8, 33, 432, 2000] {
      var bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 3 + 1) }
      let hash = bytes.withRawSpan { XXH64.hash($0, zeroing: 4..<8, seed: 9) }
      for index in 4..<8 { bytes[index] = 0 }
      #expect(hash == XXH64.hash(bytes, seed: 9))
    }
  }
}
