// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

struct Wagon: Storable, Equatable {
  let id: Int
  var model: String
  var year: Int
  var plate: String?
  var tags: [String] = []
  var sold = Date(timeIntervalSince1970: 0.1)

  static let indexes = [
    Index<Wagon>("model", \.model), Index("year", \.year), Index("tag", each: \.tags),
    Index("plate", \.plate, unique: true),
  ]

  static func sample(_ id: Int) -> Wagon {
    let models: [String] = ["A", "B", "Ä"]
    var wagon = Wagon(id: id, model: models[id % 3], year: 2000 + id % 7)
    if id % 2 != 0 { wagon.plate = "P\(id)" }
    if id % 5 == 0 { wagon.tags = ["fast", "red"] }
    wagon.sold = Date(timeIntervalSince1970: Double(id) * 0.1)
    return wagon
  }
}

enum Other { struct Wagon: Storable { let id: String } }

struct HalfIndexed: Storable {
  let id: Int
  var level: Int
  static let indexes = [Index<HalfIndexed>("high", \.level, where: \.level > 3)]
}

/// The object commands, by the executable, on a store that this process has open as well.
@Suite(.timeLimit(.minutes(60)))
struct ObjectCommandTests {
  private func withWagons(
    _ count: Int = 30, _ body: (Tool, ObjectStore, [Wagon]) throws -> Void
  ) throws {
    try withTool { (tool) throws in
      let objects = try ObjectStore(at: tool.store)
      defer { objects.close() }
      let wagons = (0..<count).map { Wagon.sample($0) }
      try objects.save(wagons)
      try body(tool, objects, wagons)
    }
  }

  private func ids(_ lines: String) throws -> [Int] {
    var ids: [Int] = []
    for line in lines.split(separator: "\n") {
      let object: [String: Any] = try Tool.object(String(line))
      let id: Int? = object["id"] as? Int
      ids.append(try #require(id))
    }
    return ids
  }

  @Test func `The types of a store are listed with counts, indexes and versions`() throws {
    try withWagons { (tool, objects, _) throws in
      let types = try #require(try tool.json("objects")["types"] as? [[String: Any]])
      #expect(types.count == 1 && types[0]["name"] as? String == "LarderCLITests.Wagon")
      #expect(types[0]["count"] as? Int == 30 && types[0]["version"] as? Int == 1)
      let indexes = try #require(types[0]["indexes"] as? [[String: Any]])
      #expect(indexes.compactMap { $0["name"] as? String } == ["model", "year", "tag", "plate"])
      #expect(indexes[3]["unique"] as? Bool == true && indexes[0]["complete"] as? Bool == true)
      let text = try tool.output("objects")
      #expect(text.contains("LarderCLITests.Wagon\n  objects     30, "))
      #expect(text.contains("plate: \\.plate (Optional<String>), unique"))
      try objects.deleteAll(Wagon.self)
      #expect(try tool.output("objects").contains("objects     0"))
    }
  }

  @Test func `A query of the tool gives what a query of the program gives`() throws {
    try withWagons { (tool, objects, wagons) throws in
      let all = objects.objects(Wagon.self)
      let output = try tool.output(
        "query", "Wagon", "year >= 2002 && model.hasPrefix(\"A\")", "--sort", "-year,id", "--limit",
        "4", "--offset", "1", "--json")
      var expected: [Wagon] = wagons.filter { $0.year >= 2002 && $0.model == "A" }
      expected.sort { $0.year == $1.year ? $0.id < $1.id : $0.year > $1.year }
      expected = Array(expected.dropFirst().prefix(4))
      #expect(try ids(output) == expected.map(\.id))
      let tagged = try tool.output("query", "Wagon", "tags.contains('fast')", "--json")
      let found = try all.where { $0.tags.contains("fast") }.fetch()
      #expect(try ids(tagged) == found.map(\.id))
      #expect(try tool.output("query", "Wagon", "plate == nil", "--count") == "15\n")
      let count = try tool.json("query", "Wagon", "plate == nil", "--count")["count"] as? Int
      #expect(count == 15)
      let table = try tool.output("query", "LarderCLITests.Wagon", "id in [3, 4]")
      #expect(table.hasPrefix("id  ") && table.contains("P3") && table.contains("1970-01-01T"))
      #expect(table.split(separator: "\n").count == 3)
    }
  }

  @Test func `An explanation names the index or the scan, and what is kept in memory`() throws {
    try withWagons { (tool, _, _) throws in
      let walk = try tool.output("query", "Wagon", "model == 'A'", "--explain")
      #expect(walk.hasPrefix("scan index \"model\" in one range"))
      let scan = try tool.output(
        "query", "Wagon", "sold > 1970-01-02", "--sort", "sold", "--limit", "5", "--explain")
      #expect(scan.contains("scan all 30 objects") && scan.contains("keeping the first 5"))
      let plan = try tool.json("query", "Wagon", "year < 3", "--explain")["plan"] as? [String]
      #expect(plan?.first?.hasPrefix("scan index \"year\"") == true)
    }
  }

  @Test func `A mistake in a condition, a pattern or a sort is marked, and ends with 64`() throws {
    try withWagons(1) { (tool, _, _) throws in
      let mistake = try tool.run("query", "Wagon", "year >= && x")
      #expect(mistake.status == .exited(64) && mistake.output == "")
      #expect(mistake.standardError.contains("column 9"))
      #expect(mistake.standardError.contains("\n  year >= && x\n          ^"))
      let pattern = try tool.run("query", "Wagon", "model.matches(\"(\")", "--json")
      #expect(pattern.status == .exited(64))
      let error = try Tool.object(pattern.standardError)
      #expect(error["error"] as? String == "invalidPattern" && error["column"] as? Int == 15)
      let sort = try tool.run("query", "Wagon", "--sort", "year,")
      #expect(sort.status == .exited(64) && sort.standardError.contains("in --sort, column 6"))
    }
  }

  @Test func `An unknown type and an ambiguous one end with 1 and name those there are`() throws {
    try withWagons(1) { (tool, objects, _) throws in
      let file = tool.store + "/../nothing.jsonl"
      for outcome in [
        try tool.run("query", "Train"), try tool.run("export", "Train", file),
        try tool.run("import", "Train", "-", input: ["{}"]),
      ] {
        #expect(outcome.status == .exited(1))
        #expect(outcome.standardError.contains("There are LarderCLITests.Wagon"))
      }
      #expect(!FileManager.default.fileExists(atPath: file))
      try objects.save(Other.Wagon(id: "o"))
      let ambiguous = try tool.run("query", "Wagon", "--json")
      #expect(ambiguous.status == .exited(1))
      let error = try Tool.object(ambiguous.standardError)
      #expect(error["error"] as? String == "ambiguousType")
      #expect(try ids(tool.output("query", "LarderCLITests.Wagon", "--json")) == [0])
    }
  }

  @Test func `What was exported and imported is read by a program, by its indexes too`() throws {
    try withWagons(2500) { (tool, objects, wagons) throws in
      let file = tool.store + "/../wagons.jsonl"
      #expect(
        try tool.output("export", "Wagon", file)
          == "Exported 2,500 objects of LarderCLITests.Wagon to \(file).\n")
      try objects.deleteAll(Wagon.self)
      let answer = try tool.json("import", "Wagon", file)
      #expect(answer["inserted"] as? Int == 2500)
      // This process had the objects in memory, and sees the new ones.
      let all = objects.objects(Wagon.self)
      #expect(try all.fetch() == wagons)
      #expect(try all.where(\.model == "Ä").fetch() == wagons.filter { $0.model == "Ä" })
      #expect(try all.where(\.plate == "P77").fetch().map(\.id) == [77])
      #expect(
        try all.where { $0.tags.contains("red") }.fetch() == wagons.filter { !$0.tags.isEmpty })
      #expect(try objects.storage.verify() == [])
      #expect(try tool.output("verify").hasPrefix("Valid"))
      try objects.prepare(Wagon.self)
      let again = try tool.output("import", "Wagon", file)
      #expect(
        again == "Imported 2,500 objects of LarderCLITests.Wagon: 0 new, 2,500 unchanged.\n")
      #expect(try all.fetch() == wagons)
      #expect(try all.where(\.plate == "P77").fetch().map(\.id) == [77])
      #expect(try objects.storage.verify() == [])
      let lines = try tool.output("export", "Wagon", "-")
      #expect(try String(contentsOfFile: file, encoding: .utf8) == lines)
    }
  }

  @Test func `A file cut in the middle of a line is stored up to there, and the line is named`()
    throws
  {
    try withWagons(1200) { (tool, objects, wagons) throws in
      let file = tool.store + "/../cut.jsonl"
      let whole = try tool.output("export", "Wagon", "-")
      let lines = whole.split(separator: "\n")
      // The first is the schema.
      let cut = lines[..<1100].joined(separator: "\n") + "\n" + lines[1100].dropLast(9)
      try cut.write(toFile: file, atomically: true, encoding: .utf8)
      try objects.deleteAll(Wagon.self)
      let outcome = try tool.run("import", "Wagon", file)
      #expect(outcome.status == .exited(70) && outcome.output == "")
      #expect(outcome.standardError.contains("line 1101: "))
      #expect(outcome.standardError.contains("1,099 lines before it stored"))
      #expect(try objects.objects(Wagon.self).fetch() == Array(wagons[..<1099]))
      #expect(try objects.storage.verify() == [])
      let again = try tool.run("import", "Wagon", file, "--json")
      let error = try Tool.object(again.standardError)
      #expect(error["error"] as? String == "invalidLine" && error["line"] as? Int == 1101)
      #expect(error["stored"] as? Int == 1099)
    }
  }

  @Test
  func `A taken key of a unique index names index, key and both ids, and standard input works`()
    throws
  {
    try withWagons(3) { (tool, objects, _) throws in
      let line = "\"model\": \"N\", \"year\": 1, \"tags\": [], \"sold\": \"2026-01-31\", \"plate\":"
      let outcome = try tool.run(
        "import", "Wagon", "-",
        input: ["{\"id\": 8, \(line) \"Q\"}", "{\"id\": 9, \(line) \"P1\"}"])
      #expect(outcome.status == .exited(70))
      #expect(outcome.standardError.contains("standard input, line 2: \"9\" has the same key"))
      #expect(outcome.standardError.contains("\"plate\" (\"P1\") as \"1\""))
      #expect(try objects.objects(Wagon.self).fetch().map(\.id) == [0, 1, 2, 8])
      #expect(
        try objects.object(Wagon.self, id: 8)?.sold == Date(timeIntervalSince1970: 1_769_817_600))
    }
  }

  @Test func `An index that only the program can keep refuses the import before anything is read`()
    throws
  {
    try withTool { (tool) throws in
      let objects = try ObjectStore(at: tool.store)
      defer { objects.close() }
      try objects.save(HalfIndexed(id: 1, level: 9))
      let outcome = try tool.run(
        "import", "HalfIndexed", "-", "--json", input: ["{\"id\": 2, \"level\": 1}"])
      #expect(outcome.status == .exited(70))
      let error = try Tool.object(outcome.standardError)
      #expect(error["error"] as? String == "foreignIndex")
      #expect((error["message"] as? String)?.contains("\"high\"") == true)
      #expect(try objects.objects(HalfIndexed.self).count() == 1)
      #expect(try ids(tool.output("query", "HalfIndexed", "level > 3", "--json")) == [1])
    }
  }

  @Test func `Migrations and incomplete indexes are reported, and nothing is applied`() throws {
    try withWagons(3) { (tool, objects, _) throws in
      #expect(try tool.output("migrate", "--dry-run").contains("none is in progress"))
      let refused = try tool.run("migrate")
      #expect(refused.status == .exited(64))
      #expect(refused.standardError.contains("--dry-run"))
      try objects.migrate([.deleteAll(named: "LarderCLITests.Nothing")])
      let applied = try #require(
        try tool.json("migrate", "--dry-run")["applied"] as? [[String: Any]])
      #expect(applied.count == 1 && applied[0]["order"] as? Int == 1)
      // Equal values keep the unique index from being built.
      try objects.save((0..<10).map { Bare(id: $0, shelf: 7) })
      try objects.save(Clad(id: 10, shelf: 8))
      let outcome = try tool.run("migrate", "--dry-run")
      #expect(outcome.status == .exited(1))
      #expect(outcome.output.contains("not complete  the index \"shelf\" of LarderCLITests.Book"))
      try objects.delete(Clad.self, ids: Array(1..<10))
      try objects.prepare(Clad.self)
      #expect(try tool.run("migrate", "--dry-run").status == .exited(0))
    }
  }
}

/// One stored type, before and after it was given an index.
struct Bare: Storable {
  let id: Int
  let shelf: Int
  static let storedName = "LarderCLITests.Book"
}

struct Clad: Storable {
  let id: Int
  let shelf: Int
  static let storedName = "LarderCLITests.Book"
  static let indexes = [Index<Clad>("shelf", \.shelf, unique: true)]
}
#endif
