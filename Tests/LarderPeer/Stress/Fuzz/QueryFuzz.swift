// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderCoding
import LarderDynamic
import LarderTesting

/// The text of a query: read, or refused with a place in it. The first byte chooses condition or
/// sort.
struct QueryFuzz: FuzzTarget {
  let name = "query"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    let conditions = [
      "age >= 18 && name.hasPrefix(\"A\")", "!(a || b.c == nil) && d in [1, -2.5e3, 'x']",
      "tags.contains(all: [\"a\", 'b']) || tags.contains(any: [])", "a in 1...5 && b in 'a'..<'c'",
      "name.matches(/^a[b-c]*(d|e)?$/)", "born >= 2026-01-31T12:00:00.5+01:00",
      "`odd name`.count > 3 && !isOpen", "n.equalsIgnoringCase(\"\\u{1F600}\\n\")", "((((a))))",
    ]
    return conditions.map { [0] + Array($0.utf8) }
      + ["age,-name", "-a.b,`c d`"].map { [1] + Array($0.utf8) }
  }

  private static let object = CBORValue.map([
    .init(.text("a"), .unsigned(3)), .init(.text("name"), .text("Anna")),
    .init(.text("tags"), .array([.text("a"), .float(.nan)])),
    .init(.text("b"), .map([.init(.text("c"), .tagged(1, .float(0.5)))])),
  ])

  func run(_ bytes: [UInt8]) -> UInt64 {
    let text = String(decoding: bytes.dropFirst().prefix(4096), as: UTF8.self)
    var outcome = DecodingFacts()
    do throws(QueryTextError) {
      if bytes.first == 1 {
        for field in try QueryParser.sort(text) { outcome.add(field.path.names.count) }
        return outcome.value
      }
      let condition = try QueryParser.condition(text)
      outcome.add(condition.holds(for: Self.object) ? 1 : 2)
      let shown = condition.description
      outcome.add(count: shown.utf8.count)
    } catch {
      law(
        error.column >= 1 && error.column <= text.count + 1,
        "column \(error.column) of \(text.count) characters")
      _ = error.description
      outcome.add(error.code.rawValue)
    }
    return outcome.value
  }
}

/// A line of JSON, and what is written of it again.
struct LineFuzz: FuzzTarget {
  let name = "line"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    [
      "{\"id\": 1, \"a\": [1.5, -2, 1e3, null, true], \"b\": {\"c\": \"\\ud83d\\ude00\\n\"}}",
      "{\"$date\": 1700000000.25}", "{\"$uuid\": \"123E4567-E89B-42D3-A456-426614174000\"}",
      "[{\"$bytes\": \"AAEC\"}, {\"$cbor\": \"+X4A\"}]", "{\"$date\": \"2026-01-31T12:00:00Z\"}",
      "18446744073709551615", "-18446744073709551616",
    ].map { Array($0.utf8) }
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    var outcome = DecodingFacts()
    do throws(JSONParseError) {
      let value = try JSONReader.value(bytes)
      let line = LosslessJSONWriter.text(value)
      guard let again = try? JSONReader.value(Array(line.utf8)) else {
        fatalError("a law is broken: \(line) was written and is not read")
      }
      law(again.encoded == value.encoded, "\(line) is read as another value")
      outcome.add(count: line.utf8.count)
    } catch {
      law(error.column >= 1 && error.column <= bytes.count + 1, "column \(error.column)")
      outcome.add(error.message)
    }
    return outcome.value
  }
}

/// Two index keys; the first byte is the length of the first. Decoded keys encode to the same
/// bytes, and compare like them.
struct IndexKeyFuzz: FuzzTarget {
  let name = "indexkey"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    func key(_ build: (inout IndexKeyEncoder) -> Void) -> [UInt8] {
      var encoder = IndexKeyEncoder()
      build(&encoder)
      return encoder.bytes
    }
    let keys = [
      key { $0.append("a\u{0}é") }, key { $0.append(Int.min) }, key { $0.append(UInt64.max) },
      key { $0.append(-1.5) }, key { $0.append(bytes: [0, 255, 0]) },
      key {
        $0.appendNothing()
        $0.append(true)
        $0.append(0)
        $0.append(Double.nan)
      },
    ]
    return keys.flatMap { first in keys.map { [UInt8(first.count)] + first + $0 } }
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    let length = Int(bytes.first ?? 0)
    let keys = [Array(bytes.dropFirst().prefix(length)), Array(bytes.dropFirst(1 + length))]
    let read = keys.map { IndexKeyElement.elements(of: $0) }
    var outcome = DecodingFacts()
    for (key, elements) in zip(keys, read) {
      guard let elements else {
        outcome.add(1)
        continue
      }
      outcome.add(count: elements.count + 2)
      var encoder = IndexKeyEncoder()
      for element in elements { element.append(to: &encoder) }
      law(encoder.bytes == key, "\(elements) was read of \(key) and is written \(encoder.bytes)")
    }
    if let first = read[0], let second = read[1] {
      let isBefore = first.lexicographicallyPrecedes(second)
      law(
        isBefore == keys[0].lexicographicallyPrecedes(keys[1]),
        "\(first) and \(second) do not compare like their bytes")
      outcome.add(isBefore ? 3 : 4)
    }
    return outcome.value
  }
}
#endif
