// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The struct of five fields that the figures speak of.
struct Person: Codable, Hashable, Sendable {
  var id: Int
  var name: String
  var email: String
  var score: Double
  var isActive: Bool

  static func sample(_ number: Int) -> Person {
    Person(
      id: number, name: "Person number \(number)", email: "person\(number)@example.com",
      score: Double(number) * 1.25, isActive: number % 2 == 0)
  }
}
