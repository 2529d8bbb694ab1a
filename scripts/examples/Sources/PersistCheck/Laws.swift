// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Hummingbird

/// The documented behavior of a PersistDriver.
struct Laws<Driver: PersistDriver> {
  let driver: Driver
  let name: String

  private struct Point: Codable, Equatable {
    var x = 1
    var y = 2
  }

  /// Returns the laws that the driver violates.
  func check() async throws -> [String] {
    var violations: [String] = []
    func expect(_ condition: Bool, _ law: String) {
      if !condition { violations.append("\(name): \(law)") }
    }

    try await driver.set(key: "a", value: Point())
    expect(try await driver.get(key: "a", as: Point.self) == Point(), "a value is read")
    try await driver.set(key: "a", value: Point(x: 3))
    expect(try await driver.get(key: "a", as: Point.self)?.x == 3, "set replaces a value")
    expect(
      try await failure { _ = try await driver.get(key: "a", as: String.self) }
        == .invalidConversion, "a value of another type is invalidConversion")
    try await driver.set(key: "a", value: "text")
    expect(try await driver.get(key: "a", as: String.self) == "text", "set changes the type")
    expect(try await driver.get(key: "none", as: String.self) == nil, "a missing key has no value")
    try await driver.remove(key: "a")
    expect(try await driver.get(key: "a", as: String.self) == nil, "a removed key has no value")

    try await driver.create(key: "b", value: 1)
    expect(
      try await failure { try await driver.create(key: "b", value: 2) } == .duplicate,
      "create of a key with a value is duplicate")
    expect(try await driver.get(key: "b", as: Int.self) == 1, "create does not replace a value")
    try await driver.remove(key: "b")
    expect(
      try await failure { try await driver.create(key: "b", value: 3) } == nil,
      "create succeeds after remove")

    try await checkExpirations(expect)
    return violations
  }

  private func checkExpirations(_ expect: (Bool, String) -> Void) async throws {
    func lifetime(_ key: String) async throws -> Duration? {
      try await driver.getWithTTL(key: key, as: Int.self)?.ttl
    }

    try await driver.set(key: "c", value: 1, expires: .seconds(100))
    try await driver.set(key: "c", value: 2)
    let kept = try await lifetime("c") ?? .zero
    expect(kept > .seconds(50) && kept <= .seconds(100), "set without `expires` keeps the time")
    expect(try await driver.get(key: "c", as: Int.self) == 2, "and replaces the value")
    try await driver.set(key: "c", value: 3, expires: .seconds(1000))
    expect(try await lifetime("c") ?? .zero > .seconds(500), "set with `expires` replaces the time")
    try await driver.set(key: "d", value: 1)
    expect(try await driver.getWithTTL(key: "d", as: Int.self)?.object == 1, "no time, a value")
    expect(try await lifetime("d") == nil, "a value without `expires` has no time")

    for expires in [Duration.zero, .milliseconds(20)] {
      try await driver.set(key: "e", value: 1, expires: expires)
      while try await driver.get(key: "e", as: Int.self) != nil {
        try await Task.sleep(for: .milliseconds(5))
      }
      expect(try await driver.getWithTTL(key: "e", as: Int.self) == nil, "nothing after \(expires)")
      try await driver.set(key: "e", value: 2, expires: .seconds(100))
      expect(try await driver.get(key: "e", as: Int.self) == 2, "a new value after \(expires)")
    }
  }

  private func failure(_ body: () async throws -> Void) async throws -> PersistError? {
    do {
      try await body()
      return nil
    } catch let error as PersistError {
      return error
    }
  }
}
