// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import LarderDynamic
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct QueryParserTests {
  @Test(
    arguments: [
      ("a == 1 || b == 2 && c == 3", "(a == 1 || (b == 2 && c == 3))"),
      ("(a == 1 || b == 2) && c == 3", "((a == 1 || b == 2) && c == 3)"),
      ("!a && b", "(!(a == true) && b == true)"),
      ("!(a && b)", "!((a == true && b == true))"),
      ("a in 1...5 && b", "((a >= 1 && a <= 5) && b == true)"),
      ("a in 1..<5", "(a >= 1 && a < 5)"),
      ("a == 1 && b == 2 && c == 3", "(a == 1 && b == 2 && c == 3)"),
      ("18 <= age", "18 <= age"),
      ("address?.city == 'B'", "address.city == 'B'"),
      ("`a b`.in == nil", "`a b`.`in` == nil"),
      ("x in []", "x in []"),
      ("tags.contains(all: ['a', \"b\"])", "tags.contains(all: ['a', \"b\"])"),
      ("  ", "all"),
      ("a==-1&&b<2.5e-3", "(a == -1 && b < 2.5e-3)"),
      ("d >= 2026-01-31T12:00:00.5+01:00", "d >= 2026-01-31T12:00:00.5+01:00"),
    ])
  func `A condition is read with the precedence of Swift`(text: String, read: String) throws {
    #expect(try QueryParser.condition(text).description == read)
  }

  @Test(
    arguments: [
      ("age >= && x", 8, "unexpected"), ("age = 3", 5, "invalidCharacter"),
      ("age >=", 7, "unexpected"), ("(age > 3", 9, "unexpected"), ("age > 3)", 8, "unexpected"),
      ("name == \"abc", 9, "unterminated"), ("name == 'a\\q'", 11, "invalidEscape"),
      ("name.foo(1)", 6, "unknownMethod"), ("name.matches(\"(\")", 14, "invalidPattern"),
      ("name.hasPrefix(3)", 16, "unexpected"), ("a == 2026-13-01", 6, "invalidDate"),
      ("a == 2026-02-29", 6, "invalidDate"), ("a in 5", 7, "unexpected"),
      ("3 in [3]", 1, "unexpected"), ("a b", 3, "unexpected"), ("1 < a < 3", 7, "unexpected"),
      ("a == 1e999", 6, "invalidNumber"),
      ("a == 1x", 6, "invalidNumber"), ("3", 2, "unexpected"), ("a & b", 3, "invalidCharacter"),
      ("hasPrefix(\"a\")", 1, "unexpected"), ("a == [1, b]", 10, "unexpected"),
      ("“a” == b", 1, "invalidCharacter"), ("a.", 3, "unexpected"),
      ("a.contains(all: 3)", 17, "unexpected"),
    ])
  func `A mistake is named with its column`(text: String, column: Int, code: String) throws {
    let error = #expect(throws: QueryTextError.self) { _ = try QueryParser.condition(text) }
    #expect(error?.column == column, "\(error!)")
    #expect(error?.code.rawValue == code, "\(error!)")
    let lines = error!.description.split(separator: "\n")
    #expect(lines.count == 3 && lines[1] == "  \(text)")
    let caret = String(repeating: " ", count: column + 1) + "^"
    #expect(lines.last.map(String.init) == caret)
  }

  @Test func `A mistake far inside a long text is shown with what is around it`() throws {
    let text =
      String(repeating: "age == 1 && ", count: 100) + "age = 2" + String(repeating: " ", count: 200)
    let error = #expect(throws: QueryTextError.self) { _ = try QueryParser.condition(text) }
    let lines = error!.marked.split(separator: "\n")
    #expect(lines.allSatisfy { $0.count < 130 })
    let caret = lines[1].count - 1
    #expect(Array(lines[0])[caret] == "=")
  }

  @Test(arguments: ["(", "!", "[", "a == [", "a && ("])
  func `Nesting has a limit, whatever nests`(piece: String) throws {
    let fits = String(repeating: "(", count: 64) + "a" + String(repeating: ")", count: 64)
    _ = try QueryParser.condition(fits)
    for count in [65, 1000, 65_536 / piece.utf8.count] {
      let text = String(repeating: piece, count: count) + "a"
      #expect(throws: QueryTextError.self) { _ = try QueryParser.condition(text) }
    }
    let error = #expect(throws: QueryTextError.self) {
      _ = try QueryParser.condition(String(repeating: "(", count: 65) + "a")
    }
    #expect(error?.code == .tooDeep && error?.column == 65)
  }

  @Test func `A long row of conditions is not nested, and the whole text has a limit`() throws {
    let row = Array(repeating: "a == 1", count: 5000).joined(separator: " && ")
    #expect(try QueryParser.condition(row).holds(for: .map([.init(.text("a"), .unsigned(1))])))
    let error = #expect(throws: QueryTextError.self) {
      _ = try QueryParser.condition(row + row)
    }
    #expect(error?.code == .tooLong)
  }

  @Test func `Sort keys are read, and a mistake in one is named with its column`() throws {
    #expect(
      try QueryParser.sort("age, -address.city").map(\.description) == ["age", "-address.city"])
    for (text, column) in [("age,", 5), ("age,-", 6), ("age name", 5), ("", 1), ("a,=b", 3)] {
      let error = #expect(throws: QueryTextError.self) { _ = try QueryParser.sort(text) }
      #expect(error?.column == column, "\(text): \(error!)")
    }
  }

  @Test(
    arguments: [
      "(" + String(repeating: "(", count: 60_000), String(repeating: "[", count: 60_000),
      String(repeating: "(", count: 400) + "a" + String(repeating: ")", count: 400),
      String(repeating: "a", count: 5000), "[z-a]", "(?<x", "\\p{Nothing}", "a**", "(?:",
    ])
  func `A hostile or wrong pattern is an error`(pattern: String) throws {
    let error = #expect(throws: QueryTextError.self) {
      _ = try QueryParser.condition("a.matches(/\(pattern)/)")
    }
    #expect(error?.code == .invalidPattern && error?.column == 11)
  }

  @Test(
    arguments: [
      ("1970-01-01", 0), ("2000-02-29", 951_782_400), ("2026-01-31T12:00:00Z", 1_769_860_800),
      ("2026-01-31T12:00:00+01:00", 1_769_857_200), ("1969-12-31T23:59:59.5", -0.5),
      ("0001-01-01", -62_135_596_800), ("2100-03-01", 4_107_542_400),
    ] as [(String, Double)])
  func `Dates are those of the calendar`(text: String, seconds: Double) {
    #expect(CalendarDate.seconds(text) == seconds - 978_307_200)
  }

  @Test func `Random words never end in anything but a condition or a typed error`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let words = [
      "a", "b.c", "(", ")", "[", "]", "!", "&&", "||", "==", "<", "in", "...", "1", "-2", "2.5",
      "'x'", "nil", "true", ".contains(", "all:", ",", ".matches(", "/a/", "2026-01-31", "`q`", ".",
      "\"", "é", "\u{301}",
    ]
    var understood = 0
    for _ in 0..<20_000 {
      let text = (0..<Int.random(in: 1...9, using: &random))
        .map { _ in words.randomElement(using: &random)! }.joined(
          separator: random.chance(50) ? " " : "")
      switch Self.outcome(text) {
      case .success(let condition):
        _ = condition.holds(for: .map([.init(.text("a"), .unsigned(1))]))
        understood += 1
      case .failure(let error):
        #expect(error.column >= 1 && error.column <= text.count + 1, "\(seed): \(text)")
      }
    }
    #expect(understood > 200)
  }

  private static func outcome(_ text: String) -> Result<QueryCondition, QueryTextError> {
    do throws(QueryTextError) {
      return .success(try QueryParser.condition(text))
    } catch {
      return .failure(error)
    }
  }
}
