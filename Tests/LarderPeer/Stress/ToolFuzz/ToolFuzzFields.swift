// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Macros
import Foundation
import LarderObjects
import LarderTesting

// The fields of the types of ToolFuzzTypes.swift, with the constants that a program compares them with.

enum ToolConstants {
  static func integer<Value: FixedWidthInteger & Sendable>(
    _ type: Value.Type
  ) -> ToolField<Crate>.Constant<Value> {
    return { random in
      let value: Value = ToolValues.integer(&random)
      return (value, random.chance(10) && value > 9 ? "\(value / 10)_\(value % 10)" : "\(value)")
    }
  }
  static let real: ToolField<Crate>.Constant<Double> = { random in
    var value = ToolValues.real(&random)
    if !value.isFinite { value = 0.1 }
    return (value, "\(value)")
  }
  static let single: ToolField<Crate>.Constant<Float> = { random in
    var value = ToolValues.single(&random)
    if !value.isFinite { value = 0.1 }
    return (value, "\(value)")
  }
  static let decimal: ToolField<Crate>.Constant<Decimal> = { random in
    let value = ToolValues.decimal(&random)
    return (value, "\(value)")
  }
  static let text: ToolField<Crate>.Constant<String> = { random in
    let value = ToolValues.text(&random)
    return (value, ToolLiterals.text(value, &random))
  }
  static let date: ToolField<Crate>.Constant<Date> = { random in
    let value = ToolValues.date(&random)
    if let text = ToolLiterals.date(value), random.chance(80) { return (value, text) }
    let seconds = Double(Int.random(in: -9...9, using: &random)) * 1e8
    return (Date(timeIntervalSince1970: seconds), "\(Int(seconds))")
  }
  static let uuid: ToolField<Crate>.Constant<UUID> = { random in
    let value = ToolValues.uuid(&random)
    let text = random.chance(50) ? value.uuidString : value.uuidString.lowercased()
    return (value, "'\(text)'")
  }
  static let url: ToolField<Crate>.Constant<URL> = { random in
    let value = ToolValues.url(&random)
    return (value, "'\(value.absoluteString)'")
  }
  static let boolean: ToolField<Crate>.Constant<Bool> = { random in
    let value = random.chance(50)
    return (value, "\(value)")
  }
  static let tint: ToolField<Crate>.Constant<CrateTint> = { random in
    let value = CrateTint.allCases.randomElement(using: &random)!
    return (value, ToolLiterals.text(value.rawValue, &random))
  }
  static let rank: ToolField<Crate>.Constant<CrateRank> = { random in
    let value = CrateRank.allCases.randomElement(using: &random)!
    return (value, "\(value.rawValue)")
  }
}

extension Crate {
  private typealias C = ToolConstants

  static let fuzzed: [ToolField<Crate>] = numbers + texts + others + lists + nested

  private static let numbers: [ToolField<Crate>] = [
    .ordered("id", .number, \.id) {
      let value = Int.random(in: -2...90, using: &$0)
      return (value, "\(value)")
    },
    .ordered("i8", .number, \.i8, C.integer(Int8.self)),
    .ordered("i16", .number, \.i16, C.integer(Int16.self)),
    .ordered(optional: "i32", .number, \.i32, C.integer(Int32.self)),
    .ordered("i64", .number, \.i64, C.integer(Int64.self)),
    .ordered("u8", .number, \.u8, C.integer(UInt8.self)),
    .ordered(optional: "u16", .number, \.u16, C.integer(UInt16.self)),
    .ordered("u32", .number, \.u32, C.integer(UInt32.self)),
    .ordered("u64", .number, \.u64, C.integer(UInt64.self)),
    .ordered("word", .number, \.word, C.integer(UInt.self)),
    .ordered("real", .number, \.real, C.real),
    .ordered(optional: "maybeReal", .number, \.maybeReal, C.real),
    .ordered("single", .number, \.single, C.single),
    .ordered(optional: "maybeSingle", .number, \.maybeSingle, C.single),
    .ordered("price", .number, \.price, C.decimal),
    .ordered(optional: "rebate", .number, \.rebate, C.decimal),
    .only("i8", .number) { random in
      let value = Int.random(in: -3...9, using: &random)
      return ("i8 > \(value).5", { Double($0.i8) > Double("\(value).5")! })
    },
    .only("u64", .number) { _ in
      ("(u64 > 99999999999999999999 || i64 < -99999999999999999999)", { _ in false })
    },
    .only("i16", .number) { _ in ("i16 < i64", { Int64($0.i16) < $0.i64 }) },
    .only("i64", .number) { _ in ("i64 == real", { Int128($0.i64) == Int128(exactly: $0.real) }) },
    .only("price", .number) { _ in
      ("rebate >= price", { crate in crate.rebate.map { $0 >= crate.price } ?? false })
    },
    .only("seen", .date) { _ in
      ("made <= seen", { crate in crate.seen.map { crate.made <= $0 } ?? false })
    },
  ]

  private static let texts: [ToolField<Crate>] = [
    .ordered(optional: "code", .text, \.code) {
      let value = "code \(Int.random(in: 0...60, using: &$0))"
      return (value, "'\(value)'")
    },
    .ordered("text", .text, \.text, C.text), .text("text", \.text),
    .ordered(optional: "note", .text, \.note, C.text),
    .only("note", .text) { random in
      let part = ToolValues.text(&random)
      let literal = ToolLiterals.text(part, &random)
      if random.chance(50) {
        return ("note.hasPrefix(\(literal))", { $0.note?.hasPrefix(part) ?? false })
      }
      return (
        "note?.equalsIgnoringCase(\(literal))",
        { $0.note.map { $0.lowercased() == part.lowercased() } ?? false }
      )
    },
    .only("text", .text) { _ in ("text == note", { $0.text == $0.note }) },
    .only("text", .text) { _ in
      (
        "text.matches(/^[a-b]+$/)",
        { crate in !crate.text.isEmpty && crate.text.utf8.allSatisfy { $0 == 97 || $0 == 98 } }
      )
    },
    .equal("link", .text, \.link, C.url),
  ]

  private static let others: [ToolField<Crate>] = [
    .ordered("made", .date, \.made, C.date), .ordered(optional: "seen", .date, \.seen, C.date),
    .equal("token", .uuid, \.token, C.uuid),
    .equal("isOpen", .boolean, \.isOpen, C.boolean),
    .only("isOpen", .boolean) { _ in ("isOpen", { $0.isOpen }) },
    .only("flag", .boolean) { _ in ("(flag == true || flag == nil)", { $0.flag ?? true }) },
    .only("other", .uuid) { random in
      let (value, text) = C.uuid(&random)
      return ("other == \(text)", { $0.other == value })
    },
    .equal("tint", .text, \.tint, C.tint),
    .only("rank", .number) { random in
      let (value, text) = C.rank(&random)
      return ("rank == \(text)", { $0.rank == value })
    },
    .only("shape", .map) { random in
      let (value, text) = C.real(&random)
      return (
        "shape.circle.radius >= \(text)",
        { if case .circle(let radius) = $0.shape { radius >= value } else { false } }
      )
    },
    .only("blob", .list) { random in
      let count = Int.random(in: 0...3, using: &random)
      return ("blob.count <= \(count)", { $0.blob.count <= count })
    },
  ]

  private static let lists: [ToolField<Crate>] = [
    .list("names", \.names, C.text), .list("counts", \.counts, C.integer(Int.self)),
    .list("prices", \.prices, C.decimal), .list("ratios", \.ratios, C.single),
    .list("dates", \.dates, C.date), .list("tokens", \.tokens, C.uuid),
    .list("tints", \.tints, C.tint),
    .only("marks", .list) { random in
      let (value, text) = C.text(&random)
      return ("marks.contains(\(text))", { $0.marks.contains(value) })
    },
    .only("table", .map) { random in
      let count = Int.random(in: 0...3, using: &random)
      return ("table.count > \(count)", { ($0.table["count"] ?? $0.table.count) > count })
    },
    .only("table", .map) { random in
      let (value, text) = C.integer(Int.self)(&random)
      return ("table.a <= \(text)", { $0.table["a"].map { $0 <= value } ?? false })
    },
    .only("tariffs", .map) { random in
      let (value, text) = C.decimal(&random)
      return ("tariffs.`a.b` == \(text)", { $0.tariffs["a.b"] == value })
    },
    ToolField("numbered", .map) { ToolField.counted("numbered", &$0) { $0.numbered.count } },
    ToolField("byToken", .map) { ToolField.counted("byToken", &$0) { $0.byToken.count } },
    ToolField("grid", .list) { ToolField.counted("grid", &$0) { $0.grid?.count } },
    ToolField("boxes", .list) { ToolField.counted("boxes", &$0) { $0.boxes.count } },
  ]

  private static let nested: [ToolField<Crate>] = [
    .ordered("box.city", .text, \.box.city, C.text), .text("box.city", \.box.city),
    .ordered("box.part.weight", .number, \.box.part.weight, C.decimal),
    .ordered("box.part.size", .number, \.box.part.size, C.single),
    .ordered("box.part.count", .number, \.box.part.count, C.integer(UInt64.self)),
    .ordered(optional: "box.part.note", .text, \.box.part.note, C.text),
    .ordered(optional: "box.part.made", .date, \.box.part.made, C.date),
    .ordered(optional: "spare.city", .text, \.spare?.city, C.text),
    .ordered(optional: "spare.part.weight", .number, \.spare?.part.weight, C.decimal),
    .ordered(optional: "spare.part.size", .number, \.spare?.part.size, C.single),
    .ordered(optional: "box.spare.size", .number, \.box.spare?.size, C.single),
    .list("box.levels", \.box.levels, C.integer(Int16.self)),
    .equal("box.tint", .text, \.box.tint, C.tint),
  ]

  static let sorts: [(name: String, sort: ToolSort<Crate>)] = [
    ("i8", .by(\.i8)), ("u64", .by(\.u64)), ("i32", .by(optional: \.i32)), ("real", .by(\.real)),
    ("maybeReal", .by(optional: \.maybeReal)), ("single", .by(\.single)),
    ("maybeSingle", .by(optional: \.maybeSingle)), ("price", .by(\.price)),
    ("rebate", .by(optional: \.rebate)), ("text", .by(\.text)), ("note", .by(optional: \.note)),
    ("made", .by(\.made)), ("seen", .by(optional: \.seen)), ("box.part.size", .by(\.box.part.size)),
    ("box.part.weight", .by(\.box.part.weight)), ("spare.city", .by(optional: \.spare?.city)),
    ("box.part.made", .by(optional: \.box.part.made)), ("u8", .by(\.u8)), ("i16", .by(\.i16)),
  ]
}

/// A key of a sort, in the library and in Swift.
struct ToolSort<Object: Storable>: Sendable {
  let apply: @Sendable (Query<Object>, SortDirection, _ isFirst: Bool) -> Query<Object>
  /// Negative: the first is before the second, ascending.
  let order: @Sendable (Object, Object) -> Int

  static func by<Value: Comparable & Sendable>(_ path: Path<Object, Value>) -> ToolSort {
    ToolSort(
      apply: { $2 ? $0.sorted(by: path, $1) : $0.then(by: path, $1) },
      order: { order($0[keyPath: path], $1[keyPath: path]) })
  }

  static func by<Value: Comparable & Sendable>(optional path: Path<Object, Value?>) -> ToolSort {
    ToolSort(
      apply: { $2 ? $0.sorted(by: path, $1) : $0.then(by: path, $1) },
      order: { left, right in
        switch (left[keyPath: path], right[keyPath: path]) {
        case (nil, nil): 0
        case (nil, _): -1
        case (_, nil): 1
        case (let left?, let right?): order(left, right)
        }
      })
  }

  /// NaN is after all other numbers.
  private static func order<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
    if left < right { return -1 }
    if right < left { return 1 }
    return (left == left ? 0 : 1) - (right == right ? 0 : 1)
  }
}
#endif
