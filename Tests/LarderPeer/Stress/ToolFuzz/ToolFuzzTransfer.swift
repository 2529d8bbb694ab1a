// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Macros
import Foundation
import LarderCoding
import LarderDynamic
import LarderEngine
import LarderObjectEngine
import LarderObjects
import LarderTesting

// Exports are imported into an empty store, where the library must read equal objects. Then lines with random
// changes are imported: one that is refused changes nothing, and one that is accepted is an object that the
// program can read, and writes in the same form.

extension ToolFuzzTrial {
  mutating func transfer(_ totals: inout ToolFuzzTotals) throws {
    let target = try ToolProcess(store: directory.appending("b"))
    var files: [String: [String]] = [:]
    for type in ["Crate", "DepotMaker", "Depot", "Sack"] {
      files[type] = try move(type, to: target, &totals)
    }
    let copy = try ObjectStore(at: target.store)
    defer { copy.close() }
    try compare(Crate.self, with: copy, &totals)
    try compare(DepotMaker.self, with: copy, &totals)
    try compare(Depot.self, with: copy, &totals)
    try compare(Sack.self, with: copy, &totals)
    try copy.prepare(Crate.self)
    let findings = try copy.storage.verify()
    if !findings.isEmpty { totals.violate("verify", "\(place), after an import: \(findings)") }
    for _ in 0..<30 { try change(files["Crate"]!, of: Crate.self, in: copy, &totals) }
    for _ in 0..<10 { try change(files["Sack"]!, of: Sack.self, in: copy, &totals) }
    for _ in 0..<10 { try change(files["DepotMaker"]!, of: DepotMaker.self, in: copy, &totals) }
    for _ in 0..<10 { try change(files["Depot"]!, of: Depot.self, in: copy, &totals) }
    let after = try copy.storage.verify()
    if !after.isEmpty { totals.violate("verify", "\(place), after changed lines: \(after)") }
  }

  /// Exports a type, imports the file into the other store, and exports it there.
  private func move(
    _ type: String, to target: ToolProcess, _ totals: inout ToolFuzzTotals
  ) throws -> [String] {
    let file = directory.appending("\(type).jsonl")
    for (tool, command) in [(tool, "export"), (target, "import")] {
      let outcome = try tool.on(command, [type, file])
      if outcome.status != .exited(0) {
        totals.violate(command, "\(place), \(type): \(outcome.status) \(outcome.standardError)")
      }
    }
    let lines = String(decoding: try TestFiles.contents(of: file), as: UTF8.self)
    let again = try target.on("export", [type, "-"])
    if again.output != lines {
      let pairs = zip(lines.split(separator: "\n"), again.lines)
      let first = pairs.first { $0 != $1 }
      totals.violate("export", "\(place), \(type): \(first.map { "\($0.0)\n\($0.1)" } ?? "lines")")
    }
    totals.processes += 3
    totals.roundTrips += 1
    return lines.split(separator: "\n").map(String.init)
  }

  private static func facts<Object: Storable>(_ type: Object.Type, _ store: ObjectStore) throws
    -> [String]
  {
    try store.objects(type).fetch().map { ToolFacts.of($0) }
  }

  private func compare<Object: Storable>(
    _ type: Object.Type, with copy: ObjectStore, _ totals: inout ToolFuzzTotals
  ) throws {
    let (one, other) = (try Self.facts(type, store), try Self.facts(type, copy))
    if one != other {
      let first = zip(one, other).first { $0 != $1 }
      totals.violate(
        "import",
        "\(place), \(type): \(one.count), \(other.count)\n\(first?.0 ?? "")\n\(first?.1 ?? "")")
    }
  }

  // MARK: Changed lines

  private mutating func change<Object: Storable>(
    _ file: [String], of type: Object.Type, in copy: ObjectStore, _ totals: inout ToolFuzzTotals
  ) throws {
    guard file.count > 2 else { return }
    let isExport = random.chance(50)
    let line = changed(file)
    totals.lines += 1
    let before = try Self.facts(type, copy)
    let name = "\(type)"
    let dynamic = DynamicObjects(copy.storage)
    var refusal: String?
    do {
      let record = try dynamic.type(named: name)
      var importing = try ObjectImport(dynamic, record, isExport: isExport)
      try importing.add(Array(line.utf8)[...], line: 1)
      try importing.flush()
    } catch let error as DynamicObjectError {
      refusal = "\(error)"
    }
    let text = "\(place), \(name)\(isExport ? " after its schema" : "")\n\(line)\n"
    let after: [String]
    do {
      after = try Self.facts(type, copy)
    } catch {
      // An object that the program cannot decode must not hide the following ones. A line that was changed after its
      // schema may have a case that only the program knows.
      if !isExport { totals.violate("undecodable", "\(text)\(refusal ?? "accepted"): \(error)") }
      return try restore(file, of: name, in: copy)
    }
    if let refusal {
      if after != before { totals.violate("refused", "\(text)\(refusal), but objects are changed") }
      return
    }
    // The objects of references are encoded with their parents here, and not in a store; lines after a schema
    // are trusted.
    if isExport || Object.self == DepotMaker.self || Object.self == Depot.self { return }
    let known = Set(before)
    for object in try copy.objects(type).fetch() where !known.contains(ToolFacts.of(object)) {
      let (found, wanted) = (
        try Self.stored(object, in: dynamic), try CBORValue(parsing: CBOREncoder().encode(object))
      )
      guard let found else {
        totals.violate("form", "\(text)the query of the tool does not return \(object.id)")
        continue
      }
      if Self.sorted(found) != Self.sorted(wanted) {
        totals.violate(
          "form",
          "\(text)stored \(LosslessJSONWriter.text(found))\nwritten \(LosslessJSONWriter.text(wanted))"
        )
      }
    }
    if after != before, random.chance(50) { try restore(file, of: name, in: copy) }
  }

  private func restore(_ file: [String], of name: String, in copy: ObjectStore) throws {
    let dynamic = DynamicObjects(copy.storage)
    let record = try dynamic.type(named: name)
    var importing = try ObjectImport(dynamic, record, isExport: true)
    for (number, line) in file.dropFirst().enumerated() {
      try? importing.add(Array(line.utf8)[...], line: number + 2)
    }
    try? importing.flush()
  }

  /// Returns the stored form of an object.
  private static func stored<Object: Storable>(
    _ object: Object, in dynamic: DynamicObjects
  ) throws -> CBORValue? {
    var found: CBORValue?
    let id = "\(object.id)"
    try dynamic.query(DynamicQuery(), of: dynamic.type(named: "\(Object.self)")) {
      if $0.id == id { found = $0.value }
      return found == nil
    }
    return found
  }

  /// The value without what may be missing, and without the order of fields and elements: that of sets and
  /// dictionaries is random.
  private static func sorted(_ value: CBORValue) -> String {
    switch value {
    case .map(let pairs):
      "{"
        + pairs.filter { ![.null, .array([]), .map([])].contains($0.value) }
        .map { "\($0.key.jsonText()):\(sorted($0.value))" }.sorted().joined(separator: ",") + "}"
    case .array(let values): "[" + values.map { sorted($0) }.sorted().joined(separator: ",") + "]"
    case .tagged(let tag, let content): "\(tag)(\(sorted(content)))"
    default: "\(value.encoded)"
    }
  }

  private mutating func changed(_ file: [String]) -> String {
    let line = file.dropFirst().randomElement(using: &random)!
    if random.chance(15) {
      var text = Array(line.unicodeScalars)
      for _ in 0..<Int.random(in: 1...2, using: &random) {
        let place = Int.random(in: 0..<text.count, using: &random)
        switch Int.random(in: 0..<3, using: &random) {
        case 0: text.remove(at: place)
        case 1:
          text[place] = Array("0123456789-.eE\"{}[],:ntf\\".unicodeScalars)
            .randomElement(using: &random)!
        default: text.insert(text.randomElement(using: &random)!, at: place)
        }
      }
      var scalars = String.UnicodeScalarView()
      scalars.append(contentsOf: text)
      return String(scalars)
    }
    guard var value = try? JSONReader.value(Array(line.utf8)) else { return line }
    for _ in 0..<Int.random(in: 1...2, using: &random) { value = mutated(value, 0) }
    var text = LosslessJSONWriter.text(value)
    for (mark, numbers) in [("\"MARK\"", Self.rawNumbers)] {
      text = text.replacingOccurrences(of: mark, with: numbers.randomElement(using: &random)!)
    }
    return text
  }

  /// Numbers that no value is written as.
  private static let rawNumbers = [
    "1e39", "1e400", "-0", "-0.0", "1.0", "1.5", "18446744073709551615", "18446744073709551616",
    "-9223372036854775809", "19.99", "0.1", "300", "-1", "1E2", "123456789012345678901234567890.5",
    "0.1000000000000000055511151231257827", "{\"$date\":1e400}", "{\"$date\":\"x\"}",
    "{\"$date\":0}",
    "{\"$uuid\":\"x\"}", "{\"$bytes\":\"AA==\"}", "{\"$cbor\":\"AA==\"}", "{\"$cbor\":\"gA==\"}",
    "{\"$cbor\":\"+X4A\"}", "{\"$date\":-1e30}", "\"2026-01-31\"", "\"2026-01-31T12:00:00.5Z\"",
    "\"AB000000-0000-0000-0000-000000000001\"", "\"AAEC\"",
  ]

  private mutating func mutated(_ value: CBORValue, _ depth: Int) -> CBORValue {
    // Deeper values are changed more often than those on the way to them.
    switch value {
    case .map(var pairs) where !pairs.isEmpty && (depth == 0 || random.chance(75)):
      let place = Int.random(in: 0..<pairs.count, using: &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0: pairs.remove(at: place)
      case 1: pairs.append(.init(.text("other"), replacement()))
      case 2: pairs[place].value = pairs.randomElement(using: &random)!.value
      default: pairs[place].value = mutated(pairs[place].value, depth + 1)
      }
      return .map(pairs)
    case .array(var values) where !values.isEmpty && random.chance(75):
      let place = Int.random(in: 0..<values.count, using: &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0: values.remove(at: place)
      case 1: values.insert(replacement(), at: place)
      default: values[place] = mutated(values[place], depth + 1)
      }
      return .array(values)
    default: return replacement()
    }
  }

  private mutating func replacement() -> CBORValue {
    switch Int.random(in: 0..<16, using: &random) {
    case 0: .null
    case 1: .boolean(random.chance(50))
    case 2: .unsigned(random.next() >> UInt64.random(in: 0...63, using: &random))
    case 3: .negative(random.next() >> UInt64.random(in: 1...63, using: &random))
    case 4: .text(ToolValues.text(&random))
    case 5: .float(ToolValues.real(&random))
    case 6: .array([])
    case 7: .map([])
    case 8: .text(CrateTint.allCases.randomElement(using: &random)!.rawValue)
    case 9: .text("code \(Int.random(in: 0...60, using: &random))")
    case 10: .map([.init(.text("none"), .map([]))])
    case 11: .map([.init(.text("circle"), .map([.init(.text("radius"), .float(2))]))])
    default: .text("MARK")
    }
  }
}
#endif
