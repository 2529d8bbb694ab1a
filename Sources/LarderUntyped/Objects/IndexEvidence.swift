// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB

/// What the stored objects of a type say about the rules for its indexes: every object carries the
/// index keys that a program gave it, so a rule can be held against them.
struct IndexEvidence: Sendable {
  /// Complete and incomplete indexes whose rule no object contradicts.
  private(set) var rules: [UInt32: IndexRule] = [:]
  /// Why the others have none, by number.
  private(set) var foreign: [UInt32: String] = [:]
  /// By the number of an index: objects with a value in it whose keys the rule makes.
  private(set) var witnesses: [UInt32: Int] = [:]
  /// The field that holds the id, as far as all objects looked at agree.
  private(set) var idField: IDField = .unknown
  private(set) var seen = 0

  enum IDField: Sendable, Hashable {
    /// No object was looked at.
    case unknown
    case stored
    /// No field says the id.
    case none
  }

  /// The oldest objects and the newest, so many of each.
  static let sample = 32

  init(
    _ record: ObjectTypeRecord, sample: Int = Self.sample, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws {
    for index in record.indexes where !index.fields.isEmpty {
      do throws(IndexRule.Foreign) {
        rules[index.number] = try IndexRule(index)
      } catch {
        foreign[index.number] = error.reason
      }
    }
    for backwards in [false, true] {
      var sequences: [UInt64] = []
      try ObjectReading.scan(
        type: record.number, backwards: backwards, in: generation, transaction
      ) { found in
        if case .success(let stored) = found { sequences.append(stored.sequence) }
        return sequences.count < sample
      }
      for sequence in sequences {
        // Damaged ones say nothing.
        guard
          let moving = try? ObjectReading.moving(
            type: record.number, sequence: sequence, in: generation, transaction),
          let value = try? CBORValue(parsing: moving.stored.bytes)
        else { continue }
        hear(moving, value, record)
      }
    }
  }

  private mutating func hear(
    _ moving: MovingObject, _ value: CBORValue, _ record: ObjectTypeRecord
  ) {
    seen += 1
    let id = String(decoding: moving.stored.id, as: UTF8.self)
    if Self.id(of: value) == id {
      if idField == .unknown { idField = .stored }
    } else {
      idField = .none
    }
    for (number, rule) in rules {
      let own = Set(moving.keys.filter { $0.index == number })
      let index = record.indexes.first { $0.number == number }!
      // Written before the index was declared.
      if own.isEmpty, index.builtTo != nil { continue }
      if let made = try? rule.keys(of: value), Set(made) == own {
        if own.contains(where: { !IndexRule.isEmpty($0.bytes) }) {
          witnesses[number, default: 0] += 1
        }
      } else {
        rules[number] = nil
        foreign[number] = "the keys that a program gave its objects are not the stored field's"
      }
    }
  }

  /// What a program calls the id of an object with this value; `nil`: only the program knows.
  static func id(of value: CBORValue) -> String? {
    switch PlainValue(FieldPath(["id"]).value(in: value)) {
    case .text(let text): text
    case .integer(let number): String(number)
    case .uuid(let bytes): KeyType.display(tag: .uuid, bytes: bytes)
    default: nil
    }
  }
}
