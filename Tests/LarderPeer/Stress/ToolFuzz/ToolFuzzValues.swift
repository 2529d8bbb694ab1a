// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Macros
import Foundation
import LarderObjects
import LarderTesting

/// Random values at the edges of their types.
enum ToolValues {
  static let doubles: [Double] = [
    0, -0.0, 0.1, 0.1 + 0.2, 1, -1, 2.5, 1e21, 1e300, -1e300, .leastNonzeroMagnitude,
    9_007_199_254_740_992,
    123_456_789.123, 16_777_217, .infinity, -.infinity, .nan,
  ]
  static let floats: [Float] = [
    0, -0.0, 0.1, 0.3, 1, -1, 2.5, 16_777_216, 3.4028235e38, .leastNonzeroMagnitude, 1e10,
    .infinity, -.infinity,
    .nan,
  ]
  static let decimals = [
    "0", "0.1", "0.3", "1", "-1", "2.5", "19.99", "-123456789.987654321", "1e39", "1e-100",
    "99999999999999999999999999999999999999", "0.33333333333333333333333333333333333333",
    "16777217", "18446744073709551615", "9007199254740993",
  ]
  static let texts = [
    "", "a", "ab", "b", "B", "Anna", "anna", "\u{0}", "a\u{0}b", "e\u{301}", "\u{e9}", "\u{301}x",
    "\u{200f}rtl\u{202e}", "\n", "a\nb", "\r\n", "\t", "'", "\"", "\\", "\\u{41}", "`", "/",
    "\u{1F642}", "\u{1F469}\u{200D}\u{1F680}", "$null", "nil", "true", "1", "Stra\u{df}e",
    "STRASSE", "\u{130}", "i\u{307}", "\u{fb01}n", "fin", "\u{feff}b", "\u{2028}", "\u{7f}",
    "\u{212b}", "\u{c5}", "\u{ac00}", "\u{1100}\u{1161}", "-a", "--json", "{\"a\":1}", "$date",
    String(repeating: "long ", count: 120) + "a", String(repeating: "long ", count: 120) + "b",
  ]
  private static let pieces = [
    "a", "b", "A", " ", "\u{301}", "\u{e9}", "\u{200d}", "\"", "\\", "\n",
  ]

  @Sendable static func text(_ random: inout SeededRandom) -> String {
    if random.chance(20) {
      return (0..<Int.random(in: 0...5, using: &random)).map { _ in
        pieces.randomElement(using: &random)!
      }.joined()
    }
    return texts.randomElement(using: &random)!
  }
  /// The key of a dictionary, among them names with a meaning in exports and query texts.
  @Sendable static func key(_ random: inout SeededRandom) -> String {
    ["a", "b", "", "$date", "$cbor", "a.b", "count", "isEmpty", "`", "e\u{301}", "in", "1"]
      .randomElement(using: &random)!
  }
  static func integer<Value: FixedWidthInteger>(_ random: inout SeededRandom) -> Value {
    random.chance(25)
      ? [Value.min, .max, Value.max - 1, Value.min + 1].randomElement(using: &random)!
      : Value(truncatingIfNeeded: Int.random(in: 0...7, using: &random))
  }
  @Sendable static func real(_ random: inout SeededRandom) -> Double {
    random.chance(10)
      ? Double(bitPattern: random.next()) : doubles.randomElement(using: &random)!
  }
  @Sendable static func single(_ random: inout SeededRandom) -> Float {
    random.chance(10)
      ? Float(bitPattern: UInt32(truncatingIfNeeded: random.next()))
      : floats.randomElement(using: &random)!
  }
  @Sendable static func decimal(_ random: inout SeededRandom) -> Decimal {
    if random.chance(15) {
      let digits = (0..<Int.random(in: 1...38, using: &random)).map { _ in
        "\(Int.random(in: 0...9, using: &random))"
      }.joined()
      return Decimal(string: "\(digits)e\(Int.random(in: -60...40, using: &random))")!
    }
    return Decimal(string: decimals.randomElement(using: &random)!)!
  }
  @Sendable static func date(_ random: inout SeededRandom) -> Date {
    let seconds: Double =
      switch Int.random(in: 0..<20, using: &random) {
      case 0: Double.random(in: -1e9...1e9, using: &random)
      case 1: [-63_114_076_800, 252_423_993_599.5, 1e15, -1e15].randomElement(using: &random)!
      default:
        [
          0, 0.25, 0.5, -1, -0.001, 786_000_000.123, 786_000_000.123.nextUp, 1e-9, 7e8,
          -978_307_200,
        ]
        .randomElement(using: &random)!
      }
    return Date(timeIntervalSinceReferenceDate: seconds)
  }
  @Sendable static func uuid(_ random: inout SeededRandom) -> UUID {
    let last = UInt8.random(in: 0...3, using: &random)
    return UUID(uuid: (171, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last))
  }
  static func newUUID(_ random: inout SeededRandom) -> UUID {
    let b = random.bytes(16)
    return UUID(
      uuid: (
        b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
        b[14], b[15]
      ))
  }
  @Sendable static func data(_ random: inout SeededRandom) -> Data {
    Data(random.bytes([0, 1, 1, 3, 700].randomElement(using: &random)!))
  }
  @Sendable static func url(_ random: inout SeededRandom) -> URL {
    let texts = [
      "https://a.example/x?q=1#y", "file:///tmp/a%20b", "relative/path", "mailto:a@b.example",
    ]
    return URL(string: texts.randomElement(using: &random)!)!
  }
  @Sendable static func shape(_ random: inout SeededRandom) -> CrateShape {
    switch Int.random(in: 0..<3, using: &random) {
    case 0: .none
    case 1: .circle(radius: real(&random))
    default: .label(text: text(&random), size: random.chance(50) ? nil : single(&random))
    }
  }
  @Sendable static func part(_ random: inout SeededRandom) -> CratePart {
    CratePart(
      weight: decimal(&random), size: single(&random), count: integer(&random),
      note: random.chance(40) ? nil : text(&random), made: random.chance(40) ? nil : date(&random))
  }
  @Sendable static func box(_ random: inout SeededRandom) -> CrateBox {
    CrateBox(
      city: text(&random), part: part(&random), spare: random.chance(40) ? nil : part(&random),
      levels: list(&random) { integer(&$0) },
      tint: CrateTint.allCases.randomElement(using: &random)!)
  }
  static func list<Value>(
    _ random: inout SeededRandom, _ value: (inout SeededRandom) -> Value
  ) -> [Value] {
    (0..<Int.random(in: 0...3, using: &random)).map { _ in value(&random) }
  }
}

/// Values as the texts of a query, which mean exactly the value in a field of its type.
enum ToolLiterals {
  static func text(_ value: String, _ random: inout SeededRandom) -> String {
    let quote = random.chance(50) ? "\"" : "'"
    let escapesAll = random.chance(20)
    var result = quote
    for scalar in value.unicodeScalars {
      switch scalar {
      case "\\": result += "\\\\"
      case "\"", "'": result += "\\" + String(scalar)
      case "\u{0}": result += "\\0"
      case "\n" where random.chance(50): result += "\\n"
      case _ where escapesAll: result += "\\u{\(String(scalar.value, radix: 16))}"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + quote
  }

  /// Returns the text of a date, or `nil` if the calendar of query texts has none for it.
  static func date(_ date: Date) -> String? {
    let seconds = date.timeIntervalSinceReferenceDate
    guard seconds > -63_000_000_000, seconds < 252_000_000_000 else { return nil }
    let whole = seconds.rounded(.down)
    let fraction = seconds - whole
    let day = Date(timeIntervalSinceReferenceDate: whole)
    let text = day.formatted(.iso8601)
    guard fraction != 0 else { return text }
    let digits = "\(fraction)"
    guard digits.hasPrefix("0."), whole + Double(digits)! == seconds else { return nil }
    return text.dropLast() + digits.dropFirst() + "Z"
  }
}

/// The exact content of a value, by its parts: `==` does not tell all texts and numbers apart.
enum ToolFacts {
  static func of(_ value: Any) -> String {
    switch value {
    case let value as String: return "\"\(Array(value.utf8))\""
    case let value as Double: return value.isNaN ? "nan" : "d\(value.bitPattern)"
    case let value as Float: return value.isNaN ? "nan" : "f\(value.bitPattern)"
    case let value as Decimal: return "\(value)"
    case let value as Date: return of(value.timeIntervalSinceReferenceDate)
    case let value as Data: return "\(Array(value))"
    case let value as URL: return value.absoluteString
    case let value as UUID: return value.uuidString
    case let value as any BinaryInteger: return "\(value)"
    case let value as HasOne<DepotMaker?>: return "\(value)"
    case let value as HasMany<DepotMaker>: return "\(value)"
    default: break
    }
    let mirror = Mirror(reflecting: value)
    switch mirror.displayStyle {
    case .dictionary, .set:
      return "{" + mirror.children.map { of($0.value) }.sorted().joined(separator: ",") + "}"
    case .enum where mirror.children.isEmpty: return "\(value)"
    case .optional where mirror.children.isEmpty: return "nil"
    default:
      return "("
        + mirror.children.map { "\($0.label ?? ""):\(of($0.value))" }.joined(separator: ",") + ")"
    }
  }
}
#endif
