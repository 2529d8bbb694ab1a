// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderTesting
import Testing

/// Texts and dates that Foundation's coding of property lists changes.
@Suite(.timeLimit(.minutes(60)))
struct PropertyListTextTests {
  private static let formats: [PropertyListSerialization.PropertyListFormat] = [.xml, .binary]

  @Test(arguments: formats)
  func `Texts and keys that begin with a dollar sign are exported and imported`(
    format: PropertyListSerialization.PropertyListFormat
  ) throws {
    let ground = try StoreFixture()
    let texts = ["$null", "$$null", "$", "$$", "$nul", "$null\u{301}", "x$null", "$NULL", ""]
    for (number, text) in texts.enumerated() {
      try ground.defaults.setValue(text, forKey: "text \(number)")
      try ground.defaults.setValue([text: ["nick": text]], forKey: "dictionary \(number)")
      try ground.defaults.setValue(number, forKey: "\(text) key")
    }
    try ground.defaults.setValue(texts, forKey: "list")
    try ground.defaults.setValue(7, forKey: "$null")
    let list = try ground.defaults.propertyList(format: format)
    let other = try StoreFixture()
    try other.defaults.importPropertyList(list)
    #expect(try other.defaults.keys() == ground.defaults.keys())
    for (number, text) in texts.enumerated() {
      #expect(try other.defaults.value(String.self, forKey: "text \(number)") == text)
      #expect(
        try other.defaults.value([String: [String: String]].self, forKey: "dictionary \(number)")
          == [text: ["nick": text]])
      #expect(try other.defaults.value(Int.self, forKey: "\(text) key") == number)
    }
    #expect(try other.defaults.value([String].self, forKey: "list") == texts)
    #expect(try other.defaults.value(Int.self, forKey: "$null") == 7)
    // Other programs read the text as it is.
    let read = try unsafe PropertyListSerialization.propertyList(
      from: list, options: [], format: nil)
    #expect((read as? [String: Any])?["text 0"] as? String == "$null")
  }

  @Test func `A date that XML cannot have is a typed error, and exported in the binary format`()
    throws
  {
    for seconds in [Double.nan, .infinity, -.infinity, 1e20, -1e20, -1e11] {
      let ground = try StoreFixture()
      let date = Date(timeIntervalSinceReferenceDate: seconds)
      try ground.defaults.setValue(["when": [date]], forKey: "date")
      let error = #expect(throws: DefaultsError.self) {
        try ground.defaults.propertyList(format: .xml)
      }
      #expect(error?.code == .propertyList && error?.key == "date")
      let other = try StoreFixture()
      try other.defaults.importPropertyList(ground.defaults.propertyList(format: .binary))
      let back = try #require(try other.defaults.value([String: [Date]].self, forKey: "date"))
      let found = try #require(back["when"]?.first).timeIntervalSinceReferenceDate
      #expect(found == seconds || found.isNaN && seconds.isNaN)
    }
    for date in [Date.distantPast, .distantFuture] {
      let ground = try StoreFixture()
      try ground.defaults.setValue(date, forKey: "date")
      try ground.defaults.importPropertyList(ground.defaults.propertyList(format: .xml))
      #expect(try ground.defaults.value(Date.self, forKey: "date") == date)
    }
  }

  @Test func `Keys in a value that differ only in their form of Unicode are a typed error`() throws
  {
    let ground = try StoreFixture()
    struct Two: Codable {
      struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
      }
      init() {}
      init(from decoder: any Decoder) throws {}
      func encode(to encoder: any Encoder) throws {
        var map = encoder.container(keyedBy: Name.self)
        try map.encode(1, forKey: Name(stringValue: "\u{E9}"))
        try map.encode(2, forKey: Name(stringValue: "e\u{301}"))
      }
    }
    try ground.defaults.setValue(Two(), forKey: "two")
    let error = #expect(throws: DefaultsError.self) { try ground.defaults.propertyList() }
    #expect(error?.code == .propertyList && error?.key == "two")
  }
}
