// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

// THE GRAMMAR OF QUERY TEXTS
//
//     condition   and { "||" and }
//     and         not { "&&" not }
//     not         { "!" } ( "(" condition ")" | comparison )
//     comparison  operand [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand ]
//               | path "in" ( list | literal ( "..." | "..<" ) literal )
//               | path "." method "(" … ")"
//     operand     path | literal
//     path        name { ( "." | "?." ) name }
//     list        "[" [ literal { "," literal } ] "]"
//     literal     text | number | date | true | false | nil | null | list
//
//     methods     hasPrefix hasSuffix contains matches equalsIgnoringCase containsIgnoringCase
//                 hasPrefixIgnoringCase hasSuffixIgnoringCase, of a string;
//                 contains(x) contains(all: [x, y]) contains(any: [x, y]), of a collection
//
// A property alone is the condition that the property is true. Collections, strings and bytes have
// the properties `count` and `isEmpty`. Parentheses, negations and lists are nested at most 64
// deep; loops parse sequences, so the depth of the stack is bounded for every text.

/// A parser of query texts.
package struct QueryParser {
  private let text: String
  private let tokens: [QueryToken]
  private var position = 0
  private var depth = 0

  static let maximumDepth = 64

  private init(_ text: String) throws(QueryTextError) {
    self.text = text
    tokens = try QueryLexer.tokens(text)
  }

  /// Returns the condition of a query text. A text of white space matches every object.
  ///
  /// - Throws: ``QueryTextError`` with the column of the error.
  package static func condition(_ text: String) throws(QueryTextError) -> QueryCondition {
    var parser = try QueryParser(text)
    if parser.current.kind == .end { return .all }
    let condition = try parser.disjunction()
    try parser.requireEnd("Conditions are joined by && or ||.")
    return condition
  }

  /// Returns the keys of a sort: `age,-address.city`.
  ///
  /// - Throws: ``QueryTextError`` with the column of the error.
  package static func sort(_ text: String) throws(QueryTextError) -> [SortField] {
    var fields: [SortField] = []
    var column = 0
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let padding = String(repeating: " ", count: column)
      column += part.count + 1
      var name = part.drop { $0.isWhitespace }
      let sign = name.first
      if sign == "-" || sign == "+" { name = name.dropFirst() }
      // Spaces keep the columns of errors relative to the complete text.
      let skipped = String(repeating: " ", count: part.count - name.count)
      var parser = try QueryParser(padding + skipped + name)
      let path = try parser.path()
      try parser.requireEnd("Separate sort keys by commas; - before a key reverses its order.")
      fields.append(SortField(path: path, isDescending: sign == "-"))
    }
    return fields
  }

  // MARK: Tokens

  private var current: QueryToken { tokens[position] }

  private func isSymbol(_ symbol: String) -> Bool { current.kind == .symbol(symbol) }

  private mutating func take(_ symbol: String) -> Bool {
    guard isSymbol(symbol) else { return false }
    position += 1
    return true
  }

  private func error(
    _ code: QueryTextError.Code, _ message: String, at token: QueryToken? = nil
  ) -> QueryTextError {
    QueryTextError(code, in: text, column: (token ?? current).column, message)
  }

  private mutating func require(_ symbol: String, _ why: String) throws(QueryTextError) {
    guard take(symbol) else {
      throw error(.unexpected, "\(why) needs a \(symbol) here, not \(current.shown).")
    }
  }

  private func requireEnd(_ hint: String) throws(QueryTextError) {
    guard current.kind == .end else {
      throw error(.unexpected, "\(current.shown) does not belong here. \(hint)")
    }
  }

  private mutating func descend(_ token: QueryToken) throws(QueryTextError) {
    depth += 1
    if depth > Self.maximumDepth {
      throw error(
        .tooDeep, "This is more than \(Self.maximumDepth) levels deep. Simplify the condition.",
        at: token)
    }
  }

  // MARK: Conditions

  private mutating func disjunction() throws(QueryTextError) -> QueryCondition {
    var conditions = [try conjunction()]
    while take("||") { conditions.append(try conjunction()) }
    return conditions.count == 1 ? conditions[0] : .or(conditions)
  }

  private mutating func conjunction() throws(QueryTextError) -> QueryCondition {
    var conditions = [try negation()]
    while take("&&") { conditions.append(try negation()) }
    return conditions.count == 1 ? conditions[0] : .and(conditions)
  }

  private mutating func negation() throws(QueryTextError) -> QueryCondition {
    let outer = depth
    defer { depth = outer }
    let first = current
    if take("!") {
      try descend(first)
      return .not(try negation())
    }
    guard take("(") else { return try comparison() }
    try descend(first)
    let condition = try disjunction()
    try require(")", "The parenthesis at column \(first.column)")
    return condition
  }

  private mutating func comparison() throws(QueryTextError) -> QueryCondition {
    let first = current
    let left = try operand()
    if isSymbol("("), case .path(let path) = left {
      return try call(path, first)
    }
    if case .symbol(let symbol) = current.kind,
      let comparison = ComparisonOperator(rawValue: symbol)
    {
      position += 1
      return .compare(left, comparison, try operand())
    }
    if current.kind == .name("in") {
      position += 1
      guard case .path(let path) = left else {
        throw error(.unexpected, "\"in\" needs a property before it.", at: first)
      }
      return try membership(path)
    }
    switch left {
    case .path:
      return .compare(left, .equal, .literal(QueryLiteral(plain: .boolean(true), source: "true")))
    case .literal(let literal):
      if case .boolean(let value) = literal.plain { return value ? .all : .not(.all) }
      throw error(
        .unexpected,
        "A comparison should follow \(first.shown), such as == or <, not "
          + "\(current.shown).")
    }
  }

  private mutating func membership(_ path: FieldPath) throws(QueryTextError) -> QueryCondition {
    if isSymbol("[") { return .isIn(path, try list()) }
    let lower = try literal("A list such as [1, 2] or a range such as 1...5 should follow \"in\"")
    let isClosed = isSymbol("...")
    guard take("...") || take("..<") else {
      throw error(
        .unexpected, "A range needs ... or ..< here, as in 1...5, not \(current.shown).")
    }
    let upper = try literal("The end of the range should be here")
    return .and([
      .compare(.path(path), .atLeast, .literal(lower)),
      .compare(.path(path), isClosed ? .atMost : .less, .literal(upper)),
    ])
  }

  // MARK: Operands

  private mutating func operand() throws(QueryTextError) -> QueryCondition.Operand {
    switch current.kind {
    case .quotedName: return .path(try path())
    case .name(let name) where !QueryToken.keywords.contains(name): return .path(try path())
    default:
      return .literal(
        try literal("A property or a constant should be here"))
    }
  }

  private mutating func path() throws(QueryTextError) -> FieldPath {
    var names: [String] = []
    repeat {
      switch current.kind {
      case .quotedName(let name): names.append(name)
      // After a point, a keyword is a name.
      case .name(let name) where !names.isEmpty || !QueryToken.keywords.contains(name):
        names.append(name)
      default:
        throw error(
          .unexpected, "The name of a property should be here, not \(current.shown).")
      }
      position += 1
    } while take(".") || take("?.")
    return FieldPath(names)
  }

  private mutating func literal(_ wanted: String) throws(QueryTextError) -> QueryLiteral {
    let token = current
    let plain: ComparableValue
    switch token.kind {
    case .text(let text): plain = .text(text)
    case .integer(let number): plain = .integer(number)
    case .real(let number): plain = .real(number)
    case .date(let seconds): plain = .date(seconds)
    case .name("true"): plain = .boolean(true)
    case .name("false"): plain = .boolean(false)
    case .name("nil"), .name("null"): plain = .nothing
    case .symbol("["):
      let first = position
      let elements = try list()
      let source = tokens[first..<position].map(\.source).joined(separator: " ")
      return QueryLiteral(plain: .array(elements.map(\.plain.stored)), source: source)
    default: throw error(.unexpected, "\(wanted), not \(token.shown).")
    }
    position += 1
    return QueryLiteral(plain: plain, source: token.source)
  }

  private mutating func list() throws(QueryTextError) -> [QueryLiteral] {
    let first = current
    let outer = depth
    defer { depth = outer }
    try descend(first)
    try require("[", "A list")
    var literals: [QueryLiteral] = []
    if take("]") { return literals }
    repeat {
      literals.append(try literal("The list needs a constant here"))
    } while take(",")
    try require("]", "The list at column \(first.column)")
    return literals
  }

  // MARK: Methods

  private mutating func call(
    _ path: FieldPath, _ first: QueryToken
  ) throws(QueryTextError) -> QueryCondition {
    let name = tokens[position - 1]
    guard path.names.count > 1 else {
      throw error(
        .unexpected, "\(name.shown) is called on a property, as in name.\(name.source)(…).",
        at: first)
    }
    let method = path.names.last!
    let property = FieldPath(path.names.dropLast())
    position += 1
    let condition: QueryCondition
    if method == "contains" {
      condition = try containing(property)
    } else if method == "matches" {
      condition = .matches(property, try pattern())
    } else if let method = StringCondition.Method(rawValue: method) {
      condition = .text(property, StringCondition(method, try string()))
    } else {
      let known = StringCondition.Method.allCases.map(\.rawValue) + ["matches"]
      throw error(
        .unknownMethod,
        "There is no method \(method). There are \(known.joined(separator: ", ")).", at: name)
    }
    try require(")", "The call of \(method)")
    return condition
  }

  private mutating func containing(_ path: FieldPath) throws(QueryTextError) -> QueryCondition {
    for (label, isAll) in [("all", true), ("any", false)]
    where current.kind == .name(label) && tokens[position + 1].kind == .symbol(":") {
      position += 2
      let literals = try list()
      return isAll ? .containsAll(path, literals) : .containsAny(path, literals)
    }
    return .contains(
      path, try literal("A constant, all: [...] or any: [...] should be here"))
  }

  private mutating func string() throws(QueryTextError) -> String {
    let token = current
    switch token.kind {
    case .text(let text):
      position += 1
      return text
    case .pattern: throw error(.unexpected, "Only matches(…) takes a pattern.")
    default: throw error(.unexpected, "A string should be here, not \(token.shown).")
    }
  }

  private mutating func pattern() throws(QueryTextError) -> TextPattern {
    let token = current
    guard case .pattern(let source) = token.kind else { return try pattern(string(), token) }
    position += 1
    return try pattern(source, token)
  }

  private func pattern(
    _ source: String, _ token: QueryToken
  ) throws(QueryTextError) -> TextPattern {
    do { return try TextPattern(source) } catch {
      throw self.error(.invalidPattern, "This regular expression \(error.message).", at: token)
    }
  }
}

/// One key of a sort.
package struct SortField: Sendable, Hashable, CustomStringConvertible {
  package let path: FieldPath
  package let isDescending: Bool

  package var description: String { (isDescending ? "-" : "") + path.description }
}

extension ComparableValue {
  /// The CBOR item that decodes to this value.
  var stored: CBORValue {
    switch self {
    case .nothing, .other: .null
    case .boolean(let value): .boolean(value)
    case .integer(let number):
      if number >= 0 {
        UInt64(exactly: number).map(CBORValue.unsigned) ?? .float(Double(number))
      } else {
        UInt64(exactly: -1 - number).map(CBORValue.negative) ?? .float(Double(number))
      }
    case .real(let number): .float(number)
    case .decimal(let number): ExactNumber.stored(number) ?? .null
    case .date(let seconds): ExactDate.stored(seconds) ?? .null
    case .text(let text): .text(text)
    case .uuid(let bytes): .tagged(37, .bytes(bytes))
    case .bytes(let bytes): .bytes(bytes)
    case .array(let values): .array(values)
    case .map(let pairs): .map(pairs)
    }
  }
}
