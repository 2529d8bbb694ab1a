// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Random declarations: a type, and what another program makes of it.

struct Generator {
  var random: Random
  private let number: Int
  private var fresh = 0

  init(seed: Int, batch: Int, number: Int) {
    random = Random(seed, batch, number, 1)
    self.number = number
  }

  // MARK: Types

  mutating func pair() -> Pair {
    var first = Declaration(
      name: "T\(number)", storedName: random.chance(70) ? "T\(number)" : nil,
      isMacro: random.chance(80), isPrivate: random.chance(25), fields: [])
    for _ in 0..<(2 + random.below(4)) { first.fields.append(field(isRequiredFine: true)) }
    first.fields.shuffle(using: &random)
    declareIndexes(&first)
    var pair = Pair(programs: [first, first])
    if random.chance(12), first.isMacro {
      newVersion(&pair)
    } else {
      for _ in 0..<random.pick([0, 1, 1, 1, 2, 2, 3]) { change(&pair) }
    }
    for program in 0..<2 { pair.programs[program].dropInvalid() }
    return pair
  }

  private mutating func name() -> String {
    fresh += 1
    return random.pick(["a", "field", "long name", "x", "Größe"]) + "\(fresh)"
  }

  private mutating func field(isRequiredFine: Bool) -> Field {
    let stored = name()
    let isPlain = stored.allSatisfy { $0.isASCII && !$0.isWhitespace }
    var field = Field(
      property: isPlain && random.chance(80) ? stored : "p\(fresh)", stored: stored, shape: shape())
    if random.chance(45) { field.fallback = fallback(field.shape) }
    if !isRequiredFine, field.fallback == nil, !field.shape.isOptional, random.chance(75) {
      field.shape = .optional(field.shape)
    }
    if field.shape.isIndexable {
      if random.chance(40) {
        field.isIndexed = true
      } else if random.chance(12) {
        field.isUnique = true
      }
    }
    return field
  }

  private mutating func scalar() -> Shape {
    random.pick([.int, .int, .int, .string, .string, .double, .int16, .date, .uuid, .decimal])
  }

  private mutating func shape() -> Shape {
    var shape: Shape
    switch random.below(21) {
    case 20: return .reference
    case 0..<11: shape = scalar()
    case 11: shape = .bool
    case 12: shape = .data
    case 13, 14: shape = choice()
    case 15, 16: shape = nested()
    case 17: shape = .list(random.pick([.int, .string]))
    case 18: shape = .list(nested())
    default: return .dictionary
    }
    if case .list = shape { return shape }
    if random.chance(35) { shape = .optional(shape) }
    return shape
  }

  private mutating func choice() -> Shape {
    fresh += 1
    return .choice("E\(number)_\(fresh)", ofText: random.chance(70), cases: 2 + random.below(2))
  }

  private mutating func nested() -> Shape {
    fresh += 1
    let name = "N\(number)_\(fresh)"
    var fields: [Field] = []
    for _ in 0..<(1 + random.below(3)) { fields.append(member()) }
    return .nested(name, fields)
  }

  private mutating func member() -> Field {
    fresh += 1
    var shape = random.chance(85) ? scalar() : choice()
    if random.chance(40) { shape = .optional(shape) }
    var field = Field(property: "m\(fresh)", stored: "m\(fresh)", shape: shape)
    if random.chance(15) { field.stored = "s\(fresh)" }
    if random.chance(45) { field.fallback = fallback(shape) }
    return field
  }

  // MARK: Values

  mutating func value(_ shape: Shape, isWide: Bool = false) -> Value {
    Generator.value(shape, isWide: isWide, &random)
  }

  static func value(_ shape: Shape, isWide: Bool = false, _ random: inout Random) -> Value {
    let small = random.below(isWide ? 40 : 4)
    switch shape {
    case .int: return .int(random.chance(5) ? .max : small - 1)
    case .int16: return .int(small)
    case .double: return .double(isWide ? Double(small) : random.pick([0, 1, 2.5, -1]))
    case .string:
      return .text(isWide ? "t\(small)" : random.pick(["", "a", "b", "a b", "none", "é"]))
    case .bool: return .bool(small % 2 == 0)
    case .date: return .date(Double(small))
    case .uuid: return .uuid("00000000-0000-0000-0000-0000000000\(10 + small)")
    case .decimal: return .decimal(random.pick(["0", "1.5", "19.99", "-2"]))
    case .data: return .data(Array(repeating: 7, count: small))
    case .choice(_, let ofText, let cases):
      let one = random.below(cases)
      return ofText ? .text("c\(one)") : .int(one)
    case .nested(_, let fields):
      return .map(
        Dictionary(uniqueKeysWithValues: fields.map { ($0.stored, value($0.shape, &random)) }))
    case .list(let shape):
      return .list((0..<random.below(4)).map { _ in value(shape, &random) })
    case .dictionary:
      return .map(random.chance(50) ? [:] : ["k": .int(small), "l": .int(1)])
    case .reference: return random.chance(30) ? .null : .int(small)
    case .optional(let shape):
      return random.chance(30) ? .null : value(shape, isWide: isWide, &random)
    }
  }

  private mutating func fallback(_ shape: Shape) -> Fallback? {
    let required = shape.required
    if shape.isOptional, random.chance(15) {
      return Fallback(value: .null, source: "nil", isLiteral: true)
    }
    let isLiteral = random.chance(70)
    switch required {
    case .int, .int16:
      let number = 2 + random.below(4)
      return Fallback(
        value: .int(number), source: isLiteral ? "\(number)" : "[\(number - 1), 1].reduce(0, +)",
        isLiteral: isLiteral)
    case .double:
      let number = 1 + Double(random.below(3)) / 2
      return Fallback(value: .double(number), source: "\(number)", isLiteral: true)
    case .string:
      let text = random.pick(["none", "a", "z"])
      return Fallback(
        value: .text(text), source: isLiteral ? "\"\(text)\"" : "[\"\(text)\"].joined()",
        isLiteral: isLiteral)
    case .bool:
      let flag = random.chance(50)
      return Fallback(value: .bool(flag), source: "\(flag)", isLiteral: true)
    case .date:
      return Fallback(
        value: .date(2), source: "Date(timeIntervalSinceReferenceDate: 2)", isLiteral: false)
    case .uuid:
      return Fallback(value: .any, source: "UUID()", isLiteral: false, isVolatile: true)
    case .decimal:
      return Fallback(value: .decimal("1.5"), source: "Decimal(15) / 10", isLiteral: false)
    case .choice(let name, let ofText, let cases):
      let one = random.below(min(cases, 2))
      return Fallback(
        value: ofText ? .text("c\(one)") : .int(one), source: "\(name).c\(one)", isLiteral: false)
    case .list(.int): return Fallback(value: .list([.int(1)]), source: "[1]", isLiteral: false)
    case .list: return Fallback(value: .list([]), source: "[]", isLiteral: true)
    case .dictionary: return Fallback(value: .map([:]), source: "[:]", isLiteral: false)
    case .data, .nested, .optional, .reference: return nil
    }
  }

  // MARK: Indexes

  private mutating func declareIndexes(_ type: inout Declaration) {
    if random.chance(35) { addIndex(&type) }
    if random.chance(15) { addIndex(&type) }
  }

  private mutating func addIndex(_ type: inout Declaration) {
    fresh += 1
    let plain = type.fields.filter(\.shape.isIndexable)
    var index = IndexDeclaration(name: "i\(fresh)", kind: .compound, fields: [])
    switch random.below(6) {
    case 0, 1:
      guard plain.count > 1 else { return }
      index.fields = Array(plain.shuffled(using: &random).prefix(2).map(\.stored))
      index.isUnique = random.chance(15)
    case 2:
      guard
        let list = type.fields.first(where: {
          $0.shape == .list(.int) || $0.shape == .list(.string)
        })
      else { return }
      index.kind = .each
      index.fields = [list.stored]
    case 3:
      guard let field = plain.first(where: { $0.shape == .int || $0.shape == .string }) else {
        return
      }
      index.kind = .partial(value(field.shape))
      index.fields = [field.stored, random.pick(plain).stored]
    case 4:
      for field in type.fields {
        guard case .nested(_, let members) = field.shape.required,
          let member = members.first(where: \.shape.isIndexable)
        else { continue }
        index.kind = .member(member.stored)
        index.fields = [field.stored]
        type.indexes.append(index)
        return
      }
      return
    default:
      let texts = type.fields.filter(\.shape.isText)
      if texts.isEmpty { return }
      index.kind = .text
      index.fields = Array(texts.prefix(2).map(\.stored))
    }
    type.indexes.append(index)
  }

  // MARK: Changes

  private mutating func newVersion(_ pair: inout Pair) {
    pair.programs[0].storedName = "T\(number)"
    var new = pair.programs[0]
    new.version = 2
    let position = random.below(new.fields.count)
    switch random.below(3) {
    case 0:
      let old = new.fields[position].stored
      new.fields[position].stored = name()
      new.fields[position].property = "q\(fresh)"
      new.step = .rename(old, to: new.fields[position].stored)
      for index in new.indexes.indices {
        new.indexes[index].fields = new.indexes[index].fields.map {
          $0 == old ? new.fields[position].stored : $0
        }
      }
    case 1:
      let added = Field(
        property: "q\(fresh)", stored: "q\(fresh)", shape: .int, isIndexed: random.chance(50))
      new.fields.append(added)
      new.step = .add(added.stored, Fallback(value: .int(3), source: "3", isLiteral: true))
    default:
      guard new.fields.count > 1 else { return }
      new.step = .remove(new.fields.remove(at: position).stored)
    }
    pair.changes.append("version \(new.step!)")
    pair.programs[1] = new
  }

  private mutating func change(_ pair: inout Pair) {
    var type = pair.programs[1]
    let position = random.below(type.fields.count)
    var text = ""
    switch random.below(16) {
    case 0:
      type.fields.insert(
        field(isRequiredFine: random.chance(15)), at: random.below(type.fields.count))
      text = "add"
    case 1 where type.fields.count > 1:
      text = "remove \(type.fields.remove(at: position).stored)"
    case 2:
      fresh += 1
      type.fields[position].property = "r\(fresh)"
      text = "rename \(type.fields[position].stored)"
    case 3:
      let others = type.fields.indices.filter {
        $0 != position && type.fields[$0].shape == type.fields[position].shape
      }
      guard let other = others.first else { return }
      let name = type.fields[position].property
      type.fields[position].property = type.fields[other].property
      type.fields[other].property = name
      text = "swap names"
    case 4, 5, 6:
      let old = type.fields[position].fallback
      type.fields[position].fallback =
        random.chance(25) ? nil : fallback(type.fields[position].shape)
      if type.fields[position].fallback == old { return }
      text = "default of \(type.fields[position].stored)"
    case 7:
      guard let shape = changed(type.fields[position].shape) else { return }
      type.fields[position].shape = shape
      type.fields[position].fallback = nil
      text = "type of \(type.fields[position].stored)"
    case 8, 9:
      guard let shape = grown(type.fields[position].shape) else { return }
      type.fields[position].shape = shape
      text = "inside of \(type.fields[position].stored)"
    case 10:
      guard type.fields[position].shape.isIndexable else { return }
      type.fields[position].isIndexed.toggle()
      text = "index of \(type.fields[position].stored)"
    case 11:
      guard type.fields[position].shape.isIndexable else { return }
      type.fields[position].isUnique.toggle()
      text = "unique \(type.fields[position].stored)"
    case 12:
      addIndex(&type)
      text = "new index"
    case 13 where !type.indexes.isEmpty:
      text = "without index \(type.indexes.removeLast().name)"
    case 14:
      if random.chance(50) { type.isMacro.toggle() } else { type.isPrivate.toggle() }
      text = "macro or private"
    case 15:
      type.fields.shuffle(using: &random)
      text = "order"
    default: return
    }
    pair.changes.append(text)
    pair.programs[1] = type
  }

  private mutating func changed(_ shape: Shape) -> Shape? {
    switch shape {
    case .optional(let inner): return inner
    case .int: return random.pick([.optional(.int), .double, .string, .int16, .list(.int), .bool])
    case .string: return random.pick([.optional(.string), .int, .data, .uuid, .list(.string)])
    case .date: return random.pick([.double, .optional(.date), .string])
    case .decimal: return random.pick([.double, .string, .int])
    case .uuid: return random.pick([.string, .data])
    case .list(.int): return .list(.string)
    case .choice(_, let ofText, _): return ofText ? .string : .int
    case .reference: return .optional(.int)
    default: return .optional(shape)
    }
  }

  /// Returns the type with another case or other members.
  private mutating func grown(_ shape: Shape) -> Shape? {
    switch shape {
    case .choice(let name, let ofText, let cases):
      return .choice(name, ofText: ofText, cases: max(2, cases + random.pick([1, 1, -1])))
    case .nested(let name, var fields):
      let position = random.below(fields.count)
      switch random.below(4) {
      case 0 where fields.count > 1: fields.remove(at: position)
      case 1: fields[position].fallback = fallback(fields[position].shape)
      default:
        var new = member()
        if new.fallback == nil, random.chance(80) { new.shape = .optional(new.shape.required) }
        fields.append(new)
      }
      return .nested(name, fields)
    case .list(let inner): return grown(inner).map { .list($0) }
    case .optional(let inner): return grown(inner).map { .optional($0) }
    default: return nil
    }
  }
}

extension Declaration {
  /// Removes what the compiler or the library would refuse.
  fileprivate mutating func dropInvalid() {
    for position in fields.indices {
      if !fields[position].shape.isIndexable || !isMacro {
        fields[position].isIndexed = false
        fields[position].isUnique = false
      }
      if fields[position].isUnique { fields[position].isIndexed = false }
      // A default of another type.
      if case .choice(_, _, let cases) = fields[position].shape.required,
        fields[position].fallback?.source.hasSuffix("c1") == true, cases < 2
      {
        fields[position].fallback = nil
      }
    }
    let valid = self
    indexes.removeAll { index in
      let shapes = index.fields.map { valid.field($0)?.shape }
      if shapes.contains(nil) { return true }
      switch index.kind {
      case .text: return shapes.contains { !$0!.isText }
      case .each:
        if case .list(let inner)? = shapes[0] { return !inner.isIndexable }
        return true
      case .partial(let value):
        switch (shapes[0]!, value) {
        case (.int, .int), (.string, .text): return !shapes[1]!.isIndexable
        default: return true
        }
      case .member(let name):
        guard case .nested(_, let members)? = shapes[0]?.required else { return true }
        return !(members.first { $0.stored == name }?.shape.isIndexable ?? false)
      case .compound: return shapes.contains { !$0!.isIndexable }
      }
    }
  }
}
