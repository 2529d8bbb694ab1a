// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderCoding
import LarderObjects
import LarderTesting

/// Identifiers of a type whose equal values can have different bytes, or different ones equal
/// texts.
protocol DifferentialIdentifier: Codable, Hashable, Sendable {
  static var identifierName: String { get }
  static func random(_ random: inout SeededRandom) -> Self
  var facts: String { get }
}

extension Data: DifferentialIdentifier {
  static var identifierName: String { "data" }
  static func random(_ random: inout SeededRandom) -> Data {
    Data(
      (0..<Int.random(in: 0...2, using: &random)).map { _ in UInt8.random(in: 0...3, using: &random)
      })
  }
  var facts: String { "\(Array(self))" }
}

extension Date: DifferentialIdentifier {
  static var identifierName: String { "date" }
  static func random(_ random: inout SeededRandom) -> Date {
    Date(timeIntervalSinceReferenceDate: Double(Int.random(in: -20...20, using: &random)) / 8)
  }
  var facts: String { "\(timeIntervalSinceReferenceDate)" }
}

extension Double: DifferentialIdentifier {
  static var identifierName: String { "double" }
  static func random(_ random: inout SeededRandom) -> Double {
    [0.0, -0.0, 0.1, 0.1 + .ulpOfOne, 1, -1, .infinity, 1e-300].randomElement(using: &random)!
  }
  var facts: String { self == 0 ? "0" : "\(bitPattern)" }
}

/// An object under an identifier of each such type.
struct Keyed<Key: DifferentialIdentifier & CacheKey & CustomStringConvertible>: DifferentialModel {
  let id: Key
  var value: Int

  static var storedName: String { "Keyed.\(Key.identifierName)" }
  static var indexes: [Index<Keyed>] { [Index("value", \.value)] }

  static func random(_ random: inout SeededRandom) -> Keyed {
    Keyed(id: Key.random(&random), value: Int.random(in: 0...20, using: &random))
  }

  var facts: String { "\(id.facts) \(value)" }

  static var conditions: [Condition<Keyed>] {
    [
      .compared(\.value) { Int.random(in: 0...20, using: &$0) },
      Condition { random in
        let id = Key.random(&random)
        return (\.id == id, { $0.id == id })
      },
    ]
  }
  static var sorts: [Sort<Keyed>] { [Sort(\.value)] }
}
#endif
