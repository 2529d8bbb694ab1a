// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct PropertyListTests {
  @Test(arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
  func `What is exported is imported again as it was`(
    format: PropertyListSerialization.PropertyListFormat
  ) throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    let date = Date(timeIntervalSince1970: 1_800_000_000)
    let profile = Profile(name: "Ada", birthday: date, picture: Data([1, 2]))
    try defaults.setValue("text", forKey: "text")
    try defaults.setValue(true, forKey: "bool")
    try defaults.setValue(1, forKey: "one")
    try defaults.setValue(UInt64.max, forKey: "most")
    try defaults.setValue(Int64.min, forKey: "least")
    try defaults.setValue(2.5, forKey: "double")
    try defaults.setValue(3.0, forKey: "whole")
    try defaults.setValue(Float(0.1), forKey: "float")
    try defaults.setValue(date, forKey: "date")
    try defaults.setValue(Data([0, 255]), forKey: "data")
    try defaults.setValue(["a", "b"], forKey: "list")
    try defaults.setValue(profile, forKey: "profile")
    let list = try defaults.propertyList(format: format)
    let other = try StoreFixture()
    #expect(try other.defaults.importPropertyList(list).count == 12)
    #expect(try other.defaults.keys() == defaults.keys())
    #expect(try other.defaults.value(String.self, forKey: "text") == "text")
    #expect(try other.defaults.value(Bool.self, forKey: "bool") == true)
    #expect(try other.defaults.value(Int.self, forKey: "one") == 1)
    #expect(try other.defaults.value(UInt64.self, forKey: "most") == .max)
    #expect(try other.defaults.value(Int64.self, forKey: "least") == .min)
    #expect(try other.defaults.value(Double.self, forKey: "double") == 2.5)
    #expect(try other.defaults.value(Double.self, forKey: "whole") == 3)
    #expect(try other.defaults.value(Float.self, forKey: "float") == 0.1)
    #expect(try other.defaults.value(Date.self, forKey: "date") == date)
    #expect(try other.defaults.value(Data.self, forKey: "data") == Data([0, 255]))
    #expect(try other.defaults.value([String].self, forKey: "list") == ["a", "b"])
    #expect(try other.defaults.value(Profile.self, forKey: "profile") == profile)
  }

  @Test func `UUIDs, URLs and enumerations are decoded from their coded form`() throws {
    enum Theme: String, Codable, Sendable { case light, dark }
    enum Level: Int, Codable, Sendable { case low = -1, high = 7 }
    struct Ticket: Codable, Sendable, Equatable {
      var id: UUID
      var others: [UUID]
      var byName: [String: UUID]
      var link: URL
      var ratio: Float
    }
    let ground = try StoreFixture()
    let id = UUID()
    let link = try #require(URL(string: "https://example.com/a?b"))
    let ticket = Ticket(
      id: id, others: [UUID(), id], byName: ["me": id], link: link, ratio: 0.1)
    try ground.defaults.setValue(id, forKey: "id")
    try ground.defaults.setValue([id], forKey: "list")
    try ground.defaults.setValue(ticket, forKey: "ticket")
    try ground.defaults.setValue(link, forKey: "link")
    try ground.defaults.setValue(Theme.dark, forKey: "theme")
    try ground.defaults.setValue(Level.low, forKey: "level")
    for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
      let list = try ground.defaults.propertyList(format: format)
      let other = try StoreFixture()
      try other.defaults.importPropertyList(list)
      #expect(try other.defaults.value(UUID.self, forKey: "id") == id)
      #expect(try other.defaults.value(String.self, forKey: "id") == id.uuidString)
      #expect(try other.defaults.value([UUID].self, forKey: "list") == [id])
      #expect(try other.defaults.value(Ticket.self, forKey: "ticket") == ticket)
      #expect(try other.defaults.value(URL.self, forKey: "link") == link)
      #expect(try other.defaults.value(Theme.self, forKey: "theme") == .dark)
      #expect(try other.defaults.value(Level.self, forKey: "level") == .low)
      try other.defaults.setValue("blue", forKey: "theme")
      #expect(throws: DefaultsError.self) { try other.defaults.value(Theme.self, forKey: "theme") }
      #expect(throws: DefaultsError.self) { try other.defaults.value(Level.self, forKey: "theme") }
      #expect(throws: DefaultsError.self) { try other.defaults.value(Int.self, forKey: "theme") }
      #expect(throws: DefaultsError.self) { try other.defaults.value([Int].self, forKey: "level") }
      #expect(try other.defaults.update(UUID.self, forKey: "id") { $0 = $0 } == id)
    }
    try ground.defaults.setValue("no UUID", forKey: "id")
    #expect(throws: DefaultsError.self) { try ground.defaults.value(UUID.self, forKey: "id") }
  }

  @Test func `Text is exported and imported as it is, or it is an error`() throws {
    let texts = [
      "\0", "\u{1}", "\r\n", "\r", "\u{FFFE}", "\u{FFFF}", "\u{B}", " a ", "]]>", "&amp;<>",
      "\u{85}",
      "\u{2028}", "\t\n", "", "x\u{FEFF}", "e\u{301}", "\u{1F}", "\u{FEFF}", "\u{FEFF}x",
    ]
    let ground = try StoreFixture()
    for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
      for text in texts {
        let isRefused = format == .xml && text.unicodeScalars.first == "\u{FEFF}"
        for values in [[text], [[text]], [[[text: "a"]]]] as [[any Codable & Sendable]] {
          try ground.defaults.setValue(values[0], forKey: "key")
          do {
            let list = try ground.defaults.propertyList(of: ["key"], format: format)
            #expect(!isRefused, "\(text.debugDescription)")
            let other = try StoreFixture()
            try other.defaults.importPropertyList(list)
            let found = try other.defaults.propertyList(of: ["key"], format: .binary)
            let before = try ground.defaults.propertyList(of: ["key"], format: .binary)
            #expect(found == before, "\(text.debugDescription)")
          } catch let error as DefaultsError where isRefused {
            #expect(error.code == .propertyList)
          }
        }
      }
    }
    try ground.defaults.setValue(1, forKey: "\u{FEFF}a")
    #expect(throws: DefaultsError.self) { try ground.defaults.propertyList() }
  }

  @Test func `A list holds the keys that are wanted`() throws {
    let ground = try StoreFixture()
    try ground.defaults.setValue(1, forKey: "a")
    try ground.defaults.setValue([1, nil] as [Int?], forKey: "holes")
    let list = try ground.defaults.propertyList(of: ["a", "none", "a"])
    let values = try PropertyListDecoder().decode([String: Int].self, from: list)
    #expect(values == ["a": 1])
  }

  @Test func `What PropertyKit kept of a UUID, a date, a URL and a Set is read as that`() throws {
    let ground = try StoreFixture()
    let id = UUID()
    let date = Date(timeIntervalSinceReferenceDate: 1234.5)
    let json = JSONEncoder()
    let link = try #require(URL(string: "https://example.com"))
    let list = try PropertyListEncoder().encode([
      "ids": try json.encode([id]), "dates": try json.encode([date]), "id": try json.encode(id),
      "set": try json.encode(Set([1, 2])), "links": try json.encode([link]),
      "wide": try json.encode([Int64.max]),
    ])
    try ground.defaults.importPropertyList(list, dataHoldsJSON: true)
    #expect(try ground.defaults.value([UUID].self, forKey: "ids") == [id])
    #expect(try ground.defaults.value(UUID.self, forKey: "id") == id)
    #expect(try ground.defaults.value([Date].self, forKey: "dates") == [date])
    #expect(try ground.defaults.value(Set<Int>.self, forKey: "set") == [1, 2])
    #expect(try ground.defaults.value([URL].self, forKey: "links") == [link])
    #expect(try ground.defaults.value([Int64].self, forKey: "wide") == [.max])
  }

  @Test func `An import that may not replace keeps what is there`() throws {
    let ground = try StoreFixture()
    let list = try PropertyListEncoder().encode(["a": 1, "b": 2])
    try ground.defaults.setValue(9, forKey: "a")
    #expect(try ground.defaults.importPropertyList(list, replacing: false) == ["b"])
    #expect(try ground.defaults.value(Int.self, forKey: "a") == 9)
    #expect(try ground.defaults.importPropertyList(list) == ["a", "b"])
    #expect(try ground.defaults.value(Int.self, forKey: "a") == 1)
  }

  @Test func `What PropertyKit kept as JSON is read as its type`() throws {
    let ground = try StoreFixture()
    let json = JSONEncoder()
    let list = try PropertyListEncoder().encode([
      "numbers": try json.encode([1, 2, 3]), "profile": try json.encode(Profile(name: "Ada")),
      "picture": Data([0xFF, 0x00]),
    ])
    try ground.defaults.importPropertyList(list, dataHoldsJSON: true)
    #expect(try ground.defaults.value([Int].self, forKey: "numbers") == [1, 2, 3])
    #expect(try ground.defaults.value(Profile.self, forKey: "profile") == Profile(name: "Ada"))
    #expect(try ground.defaults.value(Data.self, forKey: "picture") == Data([0xFF, 0x00]))
    // As property lists go, it is a dictionary now.
    let again = try ground.defaults.propertyList()
    let other = try StoreFixture()
    try other.defaults.importPropertyList(again)
    #expect(try other.defaults.value(Profile.self, forKey: "profile")?.name == "Ada")
  }

  @Test(arguments: ["", "no list", "<plist version=\"1.0\"><string>x</string></plist>"])
  func `Data that is not a property list of a dictionary is a typed error`(text: String) throws {
    let ground = try StoreFixture()
    do {
      try ground.defaults.importPropertyList(Data(text.utf8))
      Issue.record("it was imported")
    } catch let error as DefaultsError { #expect(error.code == .propertyList) }
    #expect(try ground.defaults.keys() == [])
  }

  @Test func `XML has the dates from the year 1 to the end of the year 30,000`() throws {
    let ground = try StoreFixture()
    let end = 883_594_656_000.0
    let inside = [-63_114_076_800.0, 0, end - 1]
    for seconds in inside {
      let date = Date(timeIntervalSinceReferenceDate: seconds)
      try ground.defaults.setValue(date, forKey: "date")
      let list = try ground.defaults.propertyList(format: .xml)
      let other = try StoreFixture()
      try other.defaults.importPropertyList(list)
      #expect(try other.defaults.value(Date.self, forKey: "date") == date, "\(seconds)")
    }
    for seconds in [-63_114_076_801.0, end, end + 1e10, .infinity] {
      let date = Date(timeIntervalSinceReferenceDate: seconds)
      try ground.defaults.setValue(date, forKey: "date")
      #expect(throws: DefaultsError.self, "\(seconds)") {
        try ground.defaults.propertyList(format: .xml)
      }
    }
  }

  /// Foundation's reading of these ends the process.
  @Test func `A property list that nests too deep is a typed error`() throws {
    let ground = try StoreFixture()
    let levels = 20_000
    let open = String(repeating: "<array>", count: levels)
    let close = String(repeating: "</array>", count: levels)
    let noise = String(repeating: "<!-- </array></array> -->", count: levels)
    let instruction = String(repeating: "</", count: levels)
    let lists = [
      "<?x \(instruction)?><plist version=\"1.0\"><dict><key>a</key>\(open)\(close)</dict></plist>",
      "<plist version=\"1.0\"><dict><key>a</key>"
        + String(repeating: "<array><?x </?>", count: levels) + close + "</dict></plist>",
      // In UTF-16 its two bytes are `</`.
      "<plist version=\"1.0\"><dict><key>a</key>"
        + String(repeating: "<array><string>\u{2F3C}</string>", count: levels) + close
        + "</dict></plist>",
      "<plist version=\"1.0\"><dict><key>a</key>\(open)\(close)</dict></plist>",
      "<plist version=\"1.0\"><dict><key>a</key>\(noise)\(open)\(close)</dict></plist>",
      "{ a = \(String(repeating: "(", count: levels))\(String(repeating: ")", count: levels)); }",
    ]
    for list in lists {
      for data in [Data(list.utf8), try #require(list.data(using: .utf16))] {
        do {
          try ground.defaults.importPropertyList(data)
          Issue.record("it was imported")
        } catch let error as DefaultsError { #expect(error.code == .propertyList) }
      }
    }
    for (name, data) in [
      ("levels", binaryList(of: (0..<levels).map { [$0 + 1] } + [[]])),
      ("itself", binaryList(of: [[0]])),
      ("both", binaryList(of: (0..<60).map { [$0 + 1, $0 + 1] } + [[]])),
    ] {
      do {
        try ground.defaults.importPropertyList(data)
        Issue.record("\(name) was imported")
      } catch let error as DefaultsError { #expect(error.code == .propertyList) }
    }
    #expect(try ground.defaults.importPropertyList(binaryList(of: [[1, 2, 2], [2], []])) == ["a"])
    #expect(try ground.defaults.value([[[Int]]].self, forKey: "a") == [[[]], [], []])
    // Brackets in texts, and many adjacent lists, do not count as depth.
    let harmless = ["a": Array(repeating: ["((((<array>"], count: 1000), "b": [["{{{{"]]]
    for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
      let data = try PropertyListSerialization.data(
        fromPropertyList: harmless, format: format, options: 0)
      #expect(try ground.defaults.importPropertyList(data) == ["a", "b"])
    }
    #expect(try ground.defaults.value([[String]].self, forKey: "b") == [["{{{{"]])
  }

  /// A binary list of a dictionary with the first of these arrays under `a`; they contain each other.
  private func binaryList(of arrays: [[Int]]) -> Data {
    func bytes(_ number: Int, _ size: Int) -> [UInt8] {
      (0..<size).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }
    var list = Array("bplist00".utf8)
    var offsets: [Int] = []
    func add(_ object: [UInt8]) {
      offsets.append(list.count)
      list += object
    }
    add([0xD1] + bytes(1, 4) + bytes(2, 4))
    add([0x51, 0x61])
    for array in arrays { add([0xA0 + UInt8(array.count)] + array.flatMap { bytes($0 + 2, 4) }) }
    let table = list.count
    list += offsets.flatMap { bytes($0, 4) }
    list += [0, 0, 0, 0, 0, 0, 4, 4]
    list += bytes(offsets.count, 8) + bytes(0, 8) + bytes(table, 8)
    return Data(list)
  }

  @Test func `What a property list cannot hold is an error that names the key`() throws {
    let ground = try StoreFixture()
    try ground.defaults.setValue([1, nil, 3] as [Int?], forKey: "holes")
    do {
      _ = try ground.defaults.propertyList()
      Issue.record("it was exported")
    } catch let error as DefaultsError {
      #expect(error.code == .propertyList)
      #expect(error.key == "holes")
    }
  }

  @Test func `A suite of UserDefaults is migrated with its types`() throws {
    let ground = try StoreFixture()
    let name = "larder-tests-\(UUID().uuidString)"
    let old = try #require(UserDefaults(suiteName: name))
    defer { UserDefaults.standard.removePersistentDomain(forName: name) }
    old.set("hello", forKey: "greeting")
    old.set(3, forKey: "count")
    old.set(true, forKey: "flag")
    old.set(0.5, forKey: "half")
    old.set(["x", "y"], forKey: "list")
    #expect(old.synchronize())
    #expect(try ground.defaults.migrate(fromUserDefaults: name)?.count == 5)
    #expect(try ground.defaults.value(String.self, forKey: "greeting") == "hello")
    #expect(try ground.defaults.value(Int.self, forKey: "count") == 3)
    #expect(try ground.defaults.value(Bool.self, forKey: "flag") == true)
    #expect(try ground.defaults.value(Float.self, forKey: "half") == 0.5)
    #expect(try ground.defaults.value([String].self, forKey: "list") == ["x", "y"])
    #expect(try ground.defaults.migrate(fromUserDefaults: name) == nil)
  }
}
