// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB

/// What the stored objects of a type say about the rules for its indexes: every object carries the
/// index keys that a program gave it, so a rule can be held against them.
struct IndexRuleEvidence: Sendable {
  /// Complete and incomplete indexes whose rule no object contradicts.
  private(set) var rules: [UInt32: IndexRule] = [:]
  /// Why the others have none, by number.
  private(set) var foreign: [UInt32: String] = [:]
  /// By the number of an index: the positions of the rule's fields that the keys of an object tell from
  /// all other fields.
  private var told: [UInt32: Set<Int>] = [:]
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
    _ record: ObjectTypeRecord, sample: Int = Self.sample, _ snapshot: borrowing Snapshot
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
        type: record.number, backwards: backwards, in: snapshot
      ) { found in
        if case .success(let stored) = found { sequences.append(stored.sequence) }
        return sequences.count < sample
      }
      for sequence in sequences {
        // Damaged ones say nothing.
        guard
          let moving = try? ObjectReading.moving(
            type: record.number, sequence: sequence, in: snapshot),
          let value = try? CBORValue(parsing: moving.stored.bytes)
        else { continue }
        hear(moving, value, record)
      }
    }
  }

  private mutating func hear(
    _ moving: MigratingObject, _ value: CBORValue, _ record: ObjectTypeRecord
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
      // Not in the index yet, or by a key that an import has guessed.
      if let builtTo = index.builtTo, moving.stored.sequence > builtTo { continue }
      if let made = try? rule.keys(of: value), Set(made) == own {
        for position in rule.fields.indices
        where !told[number, default: []].contains(position)
          && own.contains(where: { !$0.isEmpty })
          && rule.isTold(position, by: own, of: value)
        {
          told[number, default: []].insert(position)
        }
      } else {
        rules[number] = nil
        foreign[number] = "the keys that a program gave its objects are not the stored field's"
      }
    }
  }

  /// Whether stored objects show that a field of a rule is the one its index is over.
  func isTold(_ position: Int, of rule: IndexRule) -> Bool {
    told[rule.number]?.contains(position) ?? false
  }

  /// Returns the rule of an index, or the reason why a query cannot use the index.
  func usableRule(for index: ObjectTypeRecord.Index) -> Result<IndexRule, IndexRule.Foreign> {
    guard let rule = rules[index.number] else {
      return .failure(.init(reason: foreign[index.number] ?? "its declaration cannot be parsed"))
    }
    for (position, field) in rule.fields.enumerated() where !isTold(position, of: rule) {
      return .failure(
        .init(reason: "no stored object shows that it is over \(field.path) and no other field"))
    }
    guard index.builtTo == nil else { return .failure(.init(reason: "it is not complete yet")) }
    return .success(rule)
  }

  /// What a program calls the id of an object with this value; `nil`: only the program knows.
  static func id(of value: CBORValue) -> String? {
    switch ComparableValue(FieldPath(["id"]).value(in: value)) {
    case .text(let text): composed(text)
    case .integer(let number): String(number)
    case .uuid(let bytes): KeyTextFormat.display(tag: .uuid, bytes: bytes)
    case .bytes(let bytes): KeyTextFormat.display(tag: .bytes, bytes: bytes)
    case .real(let number): KeyTextFormat.display(tag: .real, bytes: number.keyBytes)
    case .boolean(let value): KeyTextFormat.display(tag: .boolean, bytes: value.keyBytes)
    case .date(let seconds): KeyTextFormat.display(tag: .date, bytes: seconds.keyBytes)
    default: nil
    }
  }
}
