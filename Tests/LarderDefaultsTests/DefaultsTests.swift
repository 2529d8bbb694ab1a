// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderEngine
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct DefaultsTests {
  @Test func `A property is kept under its name, and setting nil removes it`() throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    #expect(defaults.title == nil)
    defaults.title = "first"
    #expect(defaults.title == "first")
    #expect(try defaults.keys() == ["title"])
    #expect(try Defaults(at: ground.path).title == "first")
    // Defect M12: this hung for ever.
    defaults.title = nil
    #expect(defaults.title == nil)
    #expect(try defaults.has("title") == false)
    // Nothing stored at all, and of a type that has no tier yet.
    defaults.set(nil as URL?, key: "url")
    #expect(ground.errors.all == [])
  }

  @Test func `A Float survives a restart exactly`() throws {
    let ground = try StoreFixture()
    ground.defaults.close()
    let numbers: [Float] = [
      0.1, -0.0, .pi, .greatestFiniteMagnitude, .leastNonzeroMagnitude, .infinity,
    ]
    for number in numbers {
      let first = try Defaults(at: ground.path)
      first.ratio = number
      #expect(first.ratio?.bitPattern == number.bitPattern)
      first.close()
      let again = try Defaults(at: ground.path)
      #expect(again.ratio?.bitPattern == number.bitPattern)
      again.close()
    }
  }

  @Test func `A default is stored by the first read and stays`() throws {
    let ground = try StoreFixture()
    #expect(ground.defaults.level == 5)
    #expect(try ground.defaults.value(Int.self, forKey: "level") == 5)
    #expect(ground.defaults.get(or: 9, key: "level") == 5)
    ground.defaults.level = 7
    #expect(ground.defaults.level == 7)
    ground.defaults.profileOrNew = nil
    #expect(ground.defaults.profileOrNew == Profile())
    #expect(ground.defaults.get(or: nil as Int?, key: "none") == nil)
    #expect(try !ground.defaults.has("none"))
  }

  @Test func `Values of every kind survive a round trip`() throws {
    let ground = try StoreFixture()
    func check<Value: Codable & Sendable & Equatable>(_ value: Value, _ key: String) throws {
      try ground.defaults.setValue(value, forKey: key)
      #expect(try ground.defaults.value(Value.self, forKey: key) == value)
      #expect(try Defaults(at: ground.path).value(Value.self, forKey: key) == value)
    }
    try check("text", "text")
    try check(true, "bool")
    try check(Int64.min, "wide")
    try check(UInt8.max, "byte")
    try check(0.1, "double")
    try check(Date(timeIntervalSinceReferenceDate: 123.456), "date")
    try check(Data([1, 2, 3]), "data")
    try check(UUID(), "uuid")
    try check(URL(string: "https://example.com/a?b")!, "url")
    try check([1, 2, 3], "array")
    try check(Set(["a", "b"]), "set")
    try check(["a": [1.5]], "dictionary")
    try check(
      Profile(name: "Ada", birthday: Date(timeIntervalSince1970: 1), picture: Data([9])), "struct")
    try check("some" as String?, "optional")
    try ground.defaults.setValue(nil as String?, forKey: "optional")
    #expect(try !ground.defaults.has("optional"))
    try ground.defaults.encode(Shared(count: 3), forKey: "class")
    let one = try #require(try ground.defaults.decode(Shared.self, forKey: "class"))
    one.count = 4
    #expect(try ground.defaults.decode(Shared.self, forKey: "class")?.count == 3)
  }

  @Test func `A value of another type is an error and is never overwritten by reading`() throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    try defaults.setValue("text", forKey: "level")
    #expect(throws: DefaultsError.self) { try defaults.value(Int.self, forKey: "level") }
    do { _ = try defaults.value(Int.self, forKey: "level") } catch let error as DefaultsError {
      #expect(error.code == .typeMismatch)
      #expect(error.key == "level")
    }
    #expect(ground.errors.all == [])
    #expect(defaults.level == 5)
    #expect(ground.errors.all.count == 1)
    #expect(defaults[DefaultsKey<[Int]>("level", default: [1])] == [1])
    #expect(throws: DefaultsError.self) {
      try defaults.update(Int.self, forKey: "level") { $0 = 1 }
    }
    #expect(throws: DefaultsError.self) { try defaults.value(forKey: "level", storing: 3) }
    #expect(throws: DefaultsError.self) { try defaults.decode(Shared.self, forKey: "level") }
    #expect(try defaults.value(String.self, forKey: "level") == "text")
    // An explicit set replaces it.
    defaults.level = 6
    #expect(defaults.level == 6)
    #expect(throws: DefaultsError.self) { try defaults.value(String.self, forKey: "level") }
  }

  @Test func `A value that cannot be encoded leaves the old one`() throws {
    struct Stubborn: Codable, Sendable {
      init() {}
      init(from decoder: any Decoder) throws { self.init() }
      func encode(to encoder: any Encoder) throws { throw CocoaError(.coderInvalidValue) }
    }
    let ground = try StoreFixture()
    try ground.defaults.setValue(1, forKey: "key")
    do {
      try ground.defaults.setValue(Stubborn(), forKey: "key")
      Issue.record("it was stored")
    } catch let error as DefaultsError { #expect(error.code == .notEncodable) }
    ground.defaults.set(Stubborn(), key: "key")
    #expect(ground.errors.all.count == 1)
    #expect(try ground.defaults.value(Int.self, forKey: "key") == 1)
  }

  @Test(arguments: [
    "", "/", "..", "../x", "a/b", "nul\u{0}l", String(repeating: "k", count: 10_000), " ", "é",
    "e\u{301}",
  ])
  func `Any text is a key like another`(key: String) throws {
    let ground = try StoreFixture()
    try ground.defaults.setValue("neighbour", forKey: key + "x")
    try ground.defaults.setValue(key, forKey: key)
    #expect(try ground.defaults.value(String.self, forKey: key) == key)
    let utf8 = try ground.defaults.keys().map { Array($0.utf8) }
    #expect(utf8.contains(Array(key.utf8)))
    #expect(try ground.defaults.removeValue(forKey: key))
    #expect(try ground.defaults.value(String.self, forKey: key) == nil)
    #expect(try ground.defaults.value(String.self, forKey: key + "x") == "neighbour")
  }

  @Test(arguments: [
    "", "../x", "..", ".", "a/b", "/etc", "x\u{0}", ".hidden", "a\nb",
    String(repeating: "s", count: 201),
  ])
  func `A suite with an invalid file name is a typed error and creates nothing`(
    name: String
  ) throws {
    do {
      _ = try Defaults(suiteName: name)
      Issue.record("it was opened")
    } catch let error as DefaultsError {
      #expect(error.code == .invalidSuiteName)
    }
  }

  @Test func `Keys of a function and of a protocol of one file are kept apart`() throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    func one() -> Int {
      defaults.set(2)
      return defaults.get(or: 0)
    }
    func two() -> Int { defaults.get(or: 0) }
    #expect(one() == 2)
    #expect(one() == 2)
    #expect(two() == 0)
    defaults.pageThroughProtocol = 12
    #expect(try defaults.value(Int.self, forKey: "page") == 12)
    #expect(defaults.pageThroughProtocol == 12)
  }

  @Test func `Typed keys have their defaults, write nothing by reading, and share with properties`()
    throws
  {
    struct Settings {
      @Default(.theme) var theme
      @Default(.lastUser) var user
      init(_ defaults: Defaults) {
        _theme = Default(.theme, in: defaults)
        _user = Default(.lastUser, in: defaults)
      }
    }
    let ground = try StoreFixture()
    let defaults = ground.defaults
    #expect(defaults[.theme] == "light")
    #expect(defaults[.lastUser] == nil)
    #expect(try defaults.keys() == [])
    let settings = Settings(defaults)
    let id = UUID()
    settings.theme = "dark"
    settings.user = id
    defaults[.sizes].append(3)
    #expect(defaults[.theme] == "dark")
    #expect(defaults[.lastUser] == id)
    #expect(try defaults.value(UUID.self, forKey: "lastUser") == id)
    #expect(defaults.get(key: "theme") == "dark")
    #expect(defaults[.sizes] == [3])
    settings.user = nil
    #expect(try !defaults.has("lastUser"))
    #expect(try defaults.reset(.theme))
    #expect(try !defaults.reset(.theme))
    #expect(settings.theme == "light")
    try defaults.set("blue", for: .theme)
    #expect(try defaults.value(of: .theme) == "blue")
    try defaults.removeAll()
    #expect(settings.theme == "light")
    #expect(defaults[.sizes] == [])
  }

  @Test func `A write is one commit, and reading commits nothing`() throws {
    let ground = try StoreFixture()
    ground.defaults.title = "first"
    let store = try SharedStore(at: ground.path, StoreOptions(durability: .durable))
    defer { store.close() }
    func commits() throws -> UInt64 {
      try store.core.withSnapshot("test") { snapshot in snapshot.commitVersion }
    }
    let before = try commits()
    ground.defaults.title = "second"
    #expect(try commits() == before + 1)
    for _ in 0..<10 {
      #expect(ground.defaults.title == "second")
      #expect(ground.defaults[.theme] == "light")
    }
    #expect(try commits() == before + 1)
  }

  @Test func `A closed handle fails with a typed error and another one continues`() throws {
    let ground = try StoreFixture()
    let other = try Defaults(at: ground.path)
    ground.defaults.title = "kept"
    #expect(ground.defaults.title == "kept")
    ground.defaults.close()
    ground.defaults.close()
    do {
      _ = try ground.defaults.value(String.self, forKey: "title")
      Issue.record("it was read")
    } catch let error as StoreError { #expect(error.code == .closed) }
    ground.defaults.title = "lost"
    #expect(ground.errors.all.count == 1)
    #expect(other.title == "kept")
  }
}
