// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import LarderTesting
import Testing

@Suite struct Base64Tests {
  @Test(arguments: [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="),
    ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
  ])
  func `The vectors of RFC 4648 hold, with padding and without`(plain: String, text: String) {
    #expect(Base64.text(Array(plain.utf8)) == text)
    let bare = text.filter { $0 != "=" }
    #expect(Base64.text(Array(plain.utf8), urlSafe: true) == bare)
    #expect(Base64.bytes(text) == Array(plain.utf8))
    #expect(Base64.bytes(bare) == Array(plain.utf8))
  }

  @Test func `Any bytes survive a round trip in both alphabets`() {
    let seed = Seed.announce()
    var random = seed.generator()
    for _ in 0..<500 {
      let bytes = (0..<Int.random(in: 0...70, using: &random)).map { _ in
        UInt8.random(in: 0...255, using: &random)
      }
      for urlSafe in [false, true] {
        #expect(Base64.bytes(Base64.text(bytes, urlSafe: urlSafe)) == bytes, "\(seed)")
      }
    }
    #expect(Base64.text([0xFB, 0xFF]) == "+/8=")
    #expect(Base64.text([0xFB, 0xFF], urlSafe: true) == "-_8")
  }

  @Test(arguments: ["Z", "Zg=Zg", "Zh==", "Zm9=", "Zm 9", "Zm9v!", "é"])
  func `Invalid and non-canonical base64 is refused`(text: String) {
    #expect(Base64.bytes(text) == nil)
  }
}
