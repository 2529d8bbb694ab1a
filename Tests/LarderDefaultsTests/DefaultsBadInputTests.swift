// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import LarderDefaults
import LarderEngine
import LarderTesting
import Testing

extension DefaultsKeys {
  fileprivate static let number = DefaultsKey<Int>("number", default: 1)
}

/// Invalid arguments, values that others stored, and directories that are removed.
@Suite(.timeLimit(.minutes(60)))
struct DefaultsBadInputTests {
  /// Unreadable values: truncated, of an unknown codec, not CBOR, not JSON, not UTF-8.
  private static let unreadable: [(UInt16, [UInt8])] = [
    (CodecIdentifier.plainDouble.rawValue, [1, 2]), (60_000, [1, 2, 3]),
    (CodecIdentifier.cbor.rawValue, [0xBF, 0x61]), (CodecIdentifier.cbor.rawValue, []),
    (CodecIdentifier.json.rawValue, Array("{\"a\":".utf8)),
    (CodecIdentifier.plainText.rawValue, [0xFF, 0xFE]),
    (CodecIdentifier.plainInteger.rawValue, []),
    (CodecIdentifier.cbor.rawValue, Array(repeating: 0x81, count: 100_000)),
    (CodecIdentifier.propertyList.rawValue, Array("bplist00".utf8)),
  ]

  private func code(_ body: () throws -> Void) -> String {
    do {
      try body()
      return "none"
    } catch let error as DefaultsError {
      return "\(error.code) \(error.key ?? "-")"
    } catch {
      return "\(error)"
    }
  }

  @Test(arguments: unreadable.indices)
  func `An unreadable value is a typed error everywhere and stays until it is set`(
    index: Int
  ) async throws {
    let (codec, payload) = Self.unreadable[index]
    let ground = try StoreFixture()
    let defaults = ground.defaults
    try await defaults.setValue("good", forKey: "neighbour")
    try defaults.setStored(codec: codec, payload: payload, forKey: "number")
    let known = ["unreadable number", "typeMismatch number"]
    #expect(known.contains(code { _ = try defaults.value(Int.self, forKey: "number") }))
    #expect(known.contains(code { _ = try defaults.value([String].self, forKey: "number") }))
    #expect(known.contains(code { _ = try defaults.decode(Shared.self, forKey: "number") }))
    #expect(known.contains(code { _ = try defaults.value(forKey: "number", storing: 3) }))
    #expect(known.contains(code { try defaults.update(.number) { $0 += 1 } }))
    #expect(known.contains(code { _ = try defaults.value(of: .number) }))
    #expect(ground.errors.all == [])
    #expect(defaults.get(key: "number") as Int? == nil)
    #expect(defaults.get(or: 7, key: "number") == 7)
    #expect(defaults[.number] == 1)
    #expect(ground.errors.all.count == 3)
    // Watching gives what reading gives.
    let shown = Log<Int>()
    defaults.watch(\.numberOrNine, options: .initial) { _, change in
      shown.append(change.newValue ?? 0)
    }
    #expect(shown.all == [9])
    // A list of all names the key, and one without it can be had.
    let listed = code { _ = try defaults.propertyList() }
    #expect(["propertyList number", "unreadable number", "typeMismatch number"].contains(listed))
    #expect(try defaults.propertyList(of: ["neighbour"]).isEmpty == false)
    var values = defaults.values(of: .number).makeAsyncIterator()
    await #expect(throws: DefaultsError.self) { _ = try await values.next() }
    // It is unchanged. An explicit set replaces it.
    #expect(try defaults.storedValue(forKey: "number")?.payload == payload)
    try await defaults.setValue(2, forKey: "number")
    #expect(defaults[.number] == 2)
    // A sequence continues after the error.
    #expect(try await values.next() == 2)
    defaults.unwatchAll()
  }

  @Test func `A number that is none is NaN as a Decimal`() throws {
    let ground = try StoreFixture()
    try ground.defaults.setValue(Double.nan, forKey: "number")
    #expect(try ground.defaults.value(Decimal.self, forKey: "number")?.isNaN == true)
    try ground.defaults.setValue(["price": Double.nan], forKey: "number")
    let prices = try ground.defaults.value([String: Decimal].self, forKey: "number")
    #expect(prices?["price"]?.isNaN == true)
  }

  @Test(arguments: [Double.infinity, -.infinity, 1e300])
  func `A number that is infinite or too large is a typed error of a Decimal`(number: Double) throws
  {
    let ground = try StoreFixture()
    try ground.defaults.setValue(number, forKey: "number")
    // As a plain number, and as a field of what CBOR stores.
    #expect(
      code { _ = try ground.defaults.value(Decimal.self, forKey: "number") }
        == "typeMismatch number")
    try ground.defaults.setValue(["price": number], forKey: "number")
    #expect(
      code { _ = try ground.defaults.value([String: Decimal].self, forKey: "number") }
        == "unreadable number")
    #expect(
      code { _ = try ground.defaults.value([String: Int].self, forKey: "number") }
        == "typeMismatch number")
    guard !number.isFinite else { return }
    #expect(
      code { _ = try ground.defaults.value([String: Date].self, forKey: "number") }
        == "unreadable number")
  }

  @Test(arguments: ["", "nul\u{0}l", "/dev/null", "/dev/null/x"])
  func `A path where no suite can be is a typed error`(path: String) {
    #expect(throws: StoreError.self) { try Defaults(at: path) }
  }

  @Test(arguments: [
    "", "../x", "a/../b", "..", "/", "x\u{0}y", String(repeating: "x", count: 10_000), "\n",
    String(repeating: "é", count: 101),
  ])
  func `An error about an invalid name gives the reason and a short excerpt`(name: String) throws {
    do {
      _ = try Defaults(suiteName: name)
      Issue.record("it was opened")
    } catch let error as DefaultsError {
      #expect(error.code == .invalidSuiteName)
      #expect(error.description.utf8.count < 400)
      #expect(error.description.allSatisfy { !$0.isNewline && $0 != "\u{0}" })
    }
  }

  @Test func `An error shows of a key what fits in a line`() throws {
    let ground = try StoreFixture()
    let key = "\n\u{0}" + String(repeating: "k", count: 10_000)
    try ground.defaults.setValue("text", forKey: key)
    do { _ = try ground.defaults.value(Int.self, forKey: key) } catch let error as DefaultsError {
      #expect(error.code == .typeMismatch)
      #expect(error.key == key)
      #expect(error.description.utf8.count < 400)
      #expect(!error.description.contains { $0.isNewline || $0 == "\u{0}" })
    }
  }

  @Test func `Two handles of one suite in a process are one suite`() async throws {
    let ground = try StoreFixture()
    let one = ground.defaults
    let two = try Defaults(at: ground.path)
    for round in 0..<100 {
      one.title = "one \(round)"
      #expect(two.title == "one \(round)")
      two.title = "two \(round)"
      #expect(one.title == "two \(round)")
    }
    let heard = Log<String?>()
    one.watch(\.title) { _, change in heard.append(change.newValue ?? nil) }
    two.title = "heard"
    await heard.wait { $0 == "heard" }
    two.close()
    one.title = "still"
    await heard.wait { $0 == "still" }
    #expect(throws: StoreError.self) { try two.value(String.self, forKey: "title") }
    one.unwatchAll()
  }

  @Test func `Watching a closed suite is nothing`() throws {
    let ground = try StoreFixture()
    ground.defaults.close()
    let info = ground.defaults.watch(\.title) { Issue.record("it was called") }
    #expect(!info.isWatching)
    ground.defaults.unwatchAll()
  }

  /// Acknowledged data is never in files that no process can find any more.
  @Test func `A suite whose directory is removed while in use fails or starts empty`() throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    defaults.title = "before"
    try FileManager.default.removeItem(atPath: ground.path)
    var failure: (any Error)?
    do { try defaults.setValue("after", forKey: "title") } catch { failure = error }
    if let failure {
      #expect(failure is StoreError)
    } else {
      // It was kept: a process that opens it now finds it.
      #expect(try Defaults(at: ground.path).value(String.self, forKey: "title") == "after")
    }
    defaults.close()
    let again = try Defaults(at: ground.path)
    again.title = "fresh"
    #expect(again.title == "fresh")
    #expect(try Defaults(at: ground.path).title == "fresh")
  }
}

extension Defaults {
  fileprivate var numberOrNine: Int { (get(key: "number") as Int?) ?? 9 }
}
