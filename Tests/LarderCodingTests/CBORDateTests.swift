// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import Testing

@Suite("Dates in CBOR")
struct CBORDateTests {
  @Test func `A whole second is tag 1`() throws {
    let date = Date(timeIntervalSince1970: 1_363_896_240)
    #expect(try expectRoundTrip(date) == "c1fb41d452d9ec000000")
    #expect(
      try expectRoundTrip(Date(timeIntervalSince1970: 1_363_896_240.5)) == "c1fb41d452d9ec200000")
  }

  @Test(arguments: [
    0, 0.1, -0.1, 1e-30, Double.leastNonzeroMagnitude, -978_307_200, -978_307_200.1, 1e15, 1e300,
    -1e300,
    Date.distantPast.timeIntervalSinceReferenceDate,
    Date.distantFuture.timeIntervalSinceReferenceDate, 700_000_000.123_456_7, .infinity,
  ])
  func `Every date survives a round trip exactly`(reference: Double) throws {
    try expectRoundTrip(Date(timeIntervalSinceReferenceDate: reference))
  }

  @Test func `Random dates survive a round trip exactly`() throws {
    var generator = SeededGenerator(seed: printedSeed())
    for _ in 0..<5_000 {
      let near = Double.random(in: 7e8...9e8, using: &generator)
      let any = Double(bitPattern: generator.next())
      for reference in [near, any] where !reference.isNaN {
        let bytes = try CBOREncoder().encode(Date(timeIntervalSinceReferenceDate: reference))
        let back = try CBORDecoder().decode(Date.self, from: bytes)
        #expect(back.timeIntervalSinceReferenceDate == reference)
      }
    }
  }

  @Test func `A date with a rounded bit is extended time whose base is right to a microsecond`()
    throws
  {
    let reference = Double(700_000_001).nextDown
    let date = Date(timeIntervalSinceReferenceDate: reference)
    let value = try CBORValue(parsing: CBOREncoder().encode(date))
    guard case .tagged(1001, .map(let pairs)) = value,
      case .float(let base) = pairs.first?.value
    else {
      Issue.record("\(value)")
      return
    }
    #expect(pairs.map(\.key) == [.unsigned(1), .text("residual")])
    #expect(abs(base - date.timeIntervalSince1970) < 1e-6)
    #expect(value.jsonText() == "\(base)")
  }

  @Test func `Dates of other writers are read`() throws {
    let wanted = Date(timeIntervalSince1970: 1_363_896_240)
    for hex in [
      "c11a514b67b0", "1a514b67b0", "c074323031332d30332d32315432303a30343a30305a",
      "d903e9a1011a514b67b0",
    ] {
      #expect(try CBORDecoder().decode(Date.self, from: bytes(hex)) == wanted)
    }
    for hex in ["c06161", "f5", "d903e9a0"] {
      #expect(throws: CodecError.self) {
        try CBORDecoder().decode(Date.self, from: bytes(hex))
      }
    }
  }
}
