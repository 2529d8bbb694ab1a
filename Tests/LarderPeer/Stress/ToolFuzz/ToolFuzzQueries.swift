// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Macros
import Foundation
import LarderCoding
import LarderDynamic
import LarderObjectEngine
import LarderObjects
import LarderTesting

/// A query counts other objects than it returns.
private struct CountDiffers: Error {
  let count: Int
  let found: Int
}

/// An answer of the tool: the ids of objects, or the code of an error of usage.
private enum ToolAnswer: Equatable {
  case ids([String])
  case usage(String)

  /// The code of an error, or nothing.
  var code: String { if case .usage(let code) = self { " " + code } else { "" } }
}

private struct ToolQuestion {
  var text: String
  var sort: String?
  var limit: Int?
  var offset = 0
}

extension ToolFuzzTrial {
  // MARK: The tool

  /// A run of `larder query` in this process.
  private mutating func ask(_ question: ToolQuestion, of type: ObjectTypeRecord) throws
    -> ToolAnswer
  {
    do {
      let query = DynamicQuery(
        condition: try QueryParser.condition(question.text),
        sort: try question.sort.map { try QueryParser.sort($0) } ?? [], limit: question.limit,
        offset: question.offset)
      if let error = try untyped.fieldError(in: query, of: type), !error.isUncertain {
        return .usage(error.code)
      }
      var ids: [String] = []
      try untyped.query(query, of: type) {
        ids.append($0.id)
        return true
      }
      if random.chance(20) {
        let count = try untyped.count(query, of: type)
        if count != ids.count { throw CountDiffers(count: count, found: ids.count) }
        _ = try untyped.explain(query, of: type)
      }
      return .ids(ids)
    } catch let error as QueryTextError {
      return .usage(error.code.rawValue)
    }
  }

  private func isUncertain(_ question: ToolQuestion) throws -> Bool {
    let query = DynamicQuery(condition: try QueryParser.condition(question.text))
    return try untyped.fieldError(in: query, of: untyped.type(named: "Crate"))?.isUncertain ?? false
  }

  private func askProcess(
    _ question: ToolQuestion, of type: String, _ totals: inout ToolFuzzTotals
  ) throws -> ToolAnswer {
    totals.processes += 1
    var options = [type, "--json"]
    if let sort = question.sort { options += ["--sort", sort] }
    if let limit = question.limit { options += ["--limit", "\(limit)"] }
    if question.offset > 0 { options += ["--offset", "\(question.offset)"] }
    let outcome = try tool.on("query", options + ["--", question.text])
    switch outcome.status {
    case .exited(0):
      return .ids(
        try outcome.lines.map { line in
          guard
            let value = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
            let id = value["id"]
          else { throw Violation(description: "not an object: \(line)") }
          return "\(id)"
        })
    case .exited(64):
      guard let value = try? JSONReader.value(Array(outcome.standardError.utf8)),
        case .text(let code)? = FieldPath(["error"]).value(in: value)
      else { return .usage("no JSON: \(outcome.standardError)") }
      return .usage(code)
    default: throw Violation(description: "\(outcome.status): \(outcome.standardError)")
    }
  }

  // MARK: Right texts

  /// Asks tool, library and array the same question.
  mutating func askCrates(_ totals: inout ToolFuzzTotals) throws {
    let term =
      random.chance(5)
      ? ToolTerm<Crate>(text: " ", predicate: nil, holds: { _ in true })
      : ToolTerm.combined(Crate.fuzzed, depth: 3, &random)
    var question = ToolQuestion(text: term.text)
    var keys: [(sort: ToolSort<Crate>, direction: SortDirection)] = []
    var names: [String] = []
    while random.chance(40), keys.count < 3 {
      let (name, sort) = Crate.sorts.randomElement(using: &random)!
      keys.append((sort, random.chance(50) ? .ascending : .descending))
      names.append((keys.last!.direction == .descending ? "-" : "") + name)
    }
    if !names.isEmpty { question.sort = names.joined(separator: ",") }
    if random.chance(30) {
      question.limit = Int.random(in: 0...12, using: &random)
      question.offset = Int.random(in: 0...3, using: &random)
    }
    let all = Self.sorted(crates.filter(term.holds), by: keys)
    let wanted = Array(all.dropFirst(question.offset).prefix(question.limit ?? .max)).map(\.id)
    let type = try untyped.type(named: "Crate")
    totals.queries += 1
    let text = "\(place)\n\(question)\nexpected \(wanted)"
    let found = try ask(question, of: type)
    if found != .ids(wanted.map { "\($0)" }) {
      totals.violate("query\(found.code)", "\(text)\ntool \(found)")
    }
    if let predicate = term.predicate, random.chance(50) {
      var query = store.objects(Crate.self).where(predicate)
      for (position, key) in keys.enumerated() {
        query = key.sort.apply(query, key.direction, position == 0)
      }
      if let limit = question.limit { query = query.offset(question.offset).limit(limit) }
      let typed = try query.fetch().map(\.id)
      if typed != wanted { totals.violate("library", "\(text)\nlibrary \(typed)") }
    }
    guard random.chance(3) else { return }
    let process = try askProcess(question, of: "Crate", &totals)
    if process != found { totals.violate("process", "\(text)\nprocess \(process), not \(found)") }
  }

  private static func sorted(
    _ crates: [Crate], by keys: [(sort: ToolSort<Crate>, direction: SortDirection)]
  ) -> [Crate] {
    crates.enumerated().sorted { left, right in
      for key in keys {
        let result = key.sort.order(left.element, right.element)
        if result != 0 { return (result < 0) == (key.direction == .ascending) }
      }
      return (left.offset < right.offset) == (keys.first?.direction != .descending)
    }.map(\.element)
  }

  /// Conditions through references, against an array of the objects that exist.
  mutating func askDepots(_ totals: inout ToolFuzzTotals) throws {
    let known = Dictionary(uniqueKeysWithValues: makers.map { ("\($0.id)", $0) })
    let (text, textLiteral) = ToolConstants.text(&random)
    let (single, singleLiteral) = ToolConstants.single(&random)
    let (decimal, decimalLiteral) = ToolConstants.decimal(&random)
    let number = Int.random(in: 0...8, using: &random)
    func maker(_ depot: Depot) -> DepotMaker? { depot.$maker.id.flatMap { known[$0] } }
    func boss(_ depot: Depot) -> DepotMaker? { maker(depot)?.$boss.id.flatMap { known[$0] } }
    let forms: [(String, (Depot) -> Bool)] = [
      ("maker.name == \(textLiteral)", { maker($0)?.name == text }),
      ("maker?.name != \(textLiteral)", { maker($0)?.name != text }),
      ("maker.score == \(singleLiteral)", { maker($0)?.score == single }),
      ("maker.score < \(singleLiteral)", { maker($0).map { $0.score < single } ?? false }),
      ("maker.price >= \(decimalLiteral)", { maker($0)?.price.map { $0 >= decimal } ?? false }),
      ("maker.price == nil", { maker($0)?.price == nil }),
      (
        "maker.box.part.weight < \(decimalLiteral)",
        { maker($0)?.box.map { $0.part.weight < decimal } ?? false }
      ),
      ("maker.boss.name == \(textLiteral)", { boss($0)?.name == text }),
      ("maker.boss.score >= \(singleLiteral)", { boss($0).map { $0.score >= single } ?? false }),
      ("maker == nil", { $0.$maker.id == nil }), ("maker != nil", { $0.$maker.id != nil }),
      ("maker == '\(number)'", { $0.$maker.id == "\(number)" }),
      ("crew.count > 1", { $0.$crew.ids.count > 1 }), ("crew.isEmpty", { $0.$crew.ids.isEmpty }),
      ("crew.contains('\(number)')", { $0.$crew.ids.contains("\(number)") }),
      ("price <= \(decimalLiteral)", { $0.price <= decimal }),
      ("tint == 'red' && name == \(textLiteral)", { $0.tint == .red && $0.name == text }),
      ("maker.id <= \(number)", { maker($0).map { $0.id <= number } ?? false }),
    ]
    let (one, holds) = forms.randomElement(using: &random)!
    let (other, alsoHolds) = forms.randomElement(using: &random)!
    let isAnd = random.chance(50)
    let question = ToolQuestion(text: "\(one) \(isAnd ? "&&" : "||") !(\(other))")
    let wanted = depots.filter {
      isAnd ? holds($0) && !alsoHolds($0) : holds($0) || !alsoHolds($0)
    }.map(\.id)
    totals.queries += 1
    let found = try ask(question, of: try untyped.type(named: "Depot"))
    if found != .ids(wanted) {
      totals.violate("reference", "\(place)\n\(question)\nexpected \(wanted)\ntool \(found)")
    }
    guard random.chance(2) else { return }
    let process = try askProcess(question, of: "Depot", &totals)
    if process != found {
      totals.violate("process", "\(place)\n\(question)\n\(process), not \(found)")
    }
  }

  // MARK: Wrong texts

  /// Asks for a field that does not exist, or compares one with a constant of another kind.
  mutating func askWrong(_ totals: inout ToolFuzzTotals) throws {
    let field = Crate.fuzzed.randomElement(using: &random)!
    let right = ToolTerm.combined(Crate.fuzzed, depth: 1, &random).text
    let wrong: String
    if random.chance(50) {
      var names = field.name.split(separator: ".").map(String.init)
      let level = Int.random(in: 0..<names.count, using: &random)
      let letter = names[level].index(
        names[level].startIndex, offsetBy: Int.random(in: 0...names[level].count, using: &random))
      names[level].insert("x", at: letter)
      let name = names.joined(separator: ".")
      wrong = [
        "\(name) == nil", "\(name) > 3", "\(name).count > 1", "\(name) == 'a'", "1 < \(name)",
        "\(name) in [1, 2]", "\(name).contains('a')", "\(name).hasPrefix('a')", name,
        "\(name).isEmpty",
      ].randomElement(using: &random)!
    } else {
      let others =
        switch field.kind {
        case .number: ["'a'", "true", "[1]", "false"]
        case .date: ["'a'", "true"]
        case .text: ["3", "2.5", "true", "2026-01-31"]
        case .boolean: ["1", "'true'", "2026-01-31"]
        case .uuid: ["3", "'x'", "true"]
        case .list: ["3", "'x'", "2026-01-31"]
        case .map: ["3", "'x'", "true"]
        }
      let other = others.randomElement(using: &random)!
      wrong = [
        "\(field.name) == \(other)", "\(field.name) != \(other)", "\(field.name) < \(other)",
        "\(other) >= \(field.name)", "\(field.name) in [\(other)]",
        "\(field.name) in [nil, \(other)]",
      ].randomElement(using: &random)!
    }
    let question = ToolQuestion(
      text: [wrong, "\(right) && \(wrong)", "!(\(wrong)) || \(right)"].randomElement(
        using: &random)!)
    totals.refusals += 1
    let found = try ask(question, of: try untyped.type(named: "Crate"))
    // A part that no object has yet is unknown; the tool warns.
    if case .ids(let ids) = found, try !isUncertain(question) {
      totals.violate(
        "accepted", "\(place)\n\(question) of \(field.name) gives \(ids.count) objects")
    }
    guard random.chance(4) else { return }
    let process = try askProcess(question, of: "Crate", &totals)
    if process != found {
      totals.violate("process", "\(place)\n\(question)\n\(process), not \(found)")
    }
  }

  /// Asks with a text in which characters were changed: an answer or an error of usage.
  mutating func askBroken(_ totals: inout ToolFuzzTotals) throws {
    var text = Array(ToolTerm.combined(Crate.fuzzed, depth: 2, &random).text.unicodeScalars)
    let pieces = Array("()[].,:!?&|=<>'\"`/\\\u{301}\0 1-e_aTZ".unicodeScalars)
    for _ in 0..<Int.random(in: 1...3, using: &random) where !text.isEmpty {
      let place = Int.random(in: 0..<text.count, using: &random)
      switch Int.random(in: 0..<4, using: &random) {
      case 0: text.remove(at: place)
      case 1: text.insert(pieces.randomElement(using: &random)!, at: place)
      case 2: text[place] = pieces.randomElement(using: &random)!
      default: text.swapAt(place, Int.random(in: 0..<text.count, using: &random))
      }
    }
    var scalars = String.UnicodeScalarView()
    scalars.append(contentsOf: text)
    let question = ToolQuestion(text: String(scalars))
    totals.refusals += 1
    let found = try ask(question, of: try untyped.type(named: "Crate"))
    guard random.chance(3), !text.contains("\0") else { return }
    let process = try askProcess(question, of: "Crate", &totals)
    if process != found {
      totals.violate("process", "\(place)\n\(question)\n\(process), not \(found)")
    }
  }
}
#endif
