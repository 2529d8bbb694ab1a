// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Foundation reads each level of a property list in a nested call: some thousand levels, a file of
// a few kilobytes, end the process, and so does a binary list that contains itself. So the shape of
// a list is checked first, in a loop.
//
// An XML list is checked as its characters, whatever its encoding; lists in an encoding in which
// `<` may have another form are rejected. Comments, CDATA and processing instructions do not change
// the depth. In a binary list, the table at its end contains the offsets of the objects; an object
// that several others contain is counted each time, as it is read.

/// The check of a property list before Foundation reads it.
package enum PropertyListDepthLimit {
  /// More levels than any list of settings has, and few enough for the smallest stack of a thread.
  package static let most = 128

  /// Returns the reason for rejecting a list, as the end of a sentence, or `nil` if Foundation can
  /// read it safely; it need not be a valid list.
  package static func rejectionReason(to list: [UInt8]) -> String? {
    if list.starts(with: "bplist".utf8) { return BinaryPropertyList(list)?.rejectionReason }
    let text = characters(of: list)
    let first = text.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
    guard first == UInt8(ascii: "<") else { return isTooDeepText(text) ? tooDeep : nil }
    if let name = declaredEncoding(text), !encodings.contains(name) {
      return "has an encoding other than UTF-8, UTF-16 and UTF-32"
    }
    return isTooDeepXML(text) ? tooDeep : nil
  }

  /// Returns the reason for which a list that was just encoded could not be read, or `nil`.
  package static func rejectionReason(writing list: [UInt8]) -> String? {
    // Each level of a list has more than two bytes.
    list.count < 2 * most ? nil : rejectionReason(to: list)
  }

  fileprivate static let tooDeep = "nests more than \(most) levels deep"

  // MARK: Characters

  private static let encodings: Set<String> = [
    "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "utf-16", "utf-16le", "utf-16be", "utf-32",
    "utf-32le", "utf-32be",
  ]

  /// A byte for each unit of the text, those beyond ASCII as 0x80, without the mark at the
  /// beginning.
  private static func characters(of list: [UInt8]) -> [UInt8] {
    let start = Array(list.prefix(4)) + [UInt8](repeating: 1, count: max(0, 4 - list.count))
    let (width, isBig, mark): (Int, Bool, Int) =
      switch (start[0], start[1], start[2], start[3]) {
      case (0xEF, 0xBB, 0xBF, _): (1, false, 3)
      case (0xFF, 0xFE, 0, 0): (4, false, 4)
      case (0, 0, 0xFE, 0xFF): (4, true, 4)
      case (0xFF, 0xFE, _, _): (2, false, 2)
      case (0xFE, 0xFF, _, _): (2, true, 2)
      case (_, 0, 0, 0): (4, false, 0)
      case (0, 0, 0, _): (4, true, 0)
      case (_, 0, _, _): (2, false, 0)
      case (0, _, _, _): (2, true, 0)
      default: (1, false, 0)
      }
    if width == 1 { return mark == 0 ? list : Array(list[mark...]) }
    return stride(from: mark, to: list.count - width + 1, by: width).map { position in
      let unit = list[position..<(position + width)]
      let number =
        isBig
        ? unit.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        : unit.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      return number < 0x80 ? UInt8(number) : 0x80
    }
  }

  /// Returns the encoding in the XML declaration, in lower case.
  private static func declaredEncoding(_ text: [UInt8]) -> String? {
    let head = String(decoding: text.prefix(400), as: UTF8.self)
    guard let end = head.firstRange(of: "?>"),
      let word = head[..<end.lowerBound].firstRange(of: "encoding")
    else {
      return nil
    }
    let rest = head[word.upperBound..<end.lowerBound].drop { $0 != "\"" && $0 != "'" }
    return rest.first.map { quote in String(rest.dropFirst().prefix { $0 != quote }).lowercased() }
  }

  // MARK: Depth

  private static func isTooDeepXML(_ text: [UInt8]) -> Bool {
    var depth = 0
    var position = 0
    func isAt(_ mark: String) -> Bool { text[position...].starts(with: mark.utf8) }
    func skip(to mark: String) {
      while position < text.count, !isAt(mark) { position += 1 }
    }
    while position < text.count {
      guard text[position] == UInt8(ascii: "<") else {
        position += 1
        continue
      }
      if isAt("<!--") {
        skip(to: "-->")
      } else if isAt("<![CDATA[") {
        skip(to: "]]>")
      } else if isAt("<?") {
        skip(to: "?>")
      } else if isAt("</") {
        depth = max(0, depth - 1)
      } else {
        let isMarkup = isAt("<!")
        skip(to: ">")
        if !isMarkup, text[position - 1] != UInt8(ascii: "/") { depth += 1 }
        if depth > most { return true }
      }
      position += 1
    }
    return false
  }

  private static func isTooDeepText(_ text: [UInt8]) -> Bool {
    var depth = 0
    var quote: UInt8?
    var isEscaped = false
    for byte in text {
      if let open = quote {
        if !isEscaped, byte == open { quote = nil }
        isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
        continue
      }
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "'"): quote = byte
      case UInt8(ascii: "("), UInt8(ascii: "{"): depth += 1
      case UInt8(ascii: ")"), UInt8(ascii: "}"): depth = max(0, depth - 1)
      default: break
      }
      if depth > most { return true }
    }
    return false
  }
}

/// The objects of a binary property list, as they contain each other.
private struct BinaryPropertyList {
  private let bytes: [UInt8]
  private let offsetSize: Int
  private let referenceSize: Int
  private let count: Int
  private let top: Int
  private let table: Int

  /// Returns `nil` if the end of the file is not that of a binary list.
  init?(_ bytes: [UInt8]) {
    guard bytes.count >= 40 else { return nil }
    self.bytes = bytes
    let trailer = bytes.count - 32
    offsetSize = Int(bytes[trailer + 6])
    referenceSize = Int(bytes[trailer + 7])
    func number(_ position: Int) -> Int? {
      bytes[position..<(position + 8)].reduce(UInt64?.some(0)) { result, byte in
        result.flatMap { $0 >> 40 == 0 ? $0 << 8 | UInt64(byte) : nil }
      }.map(Int.init)
    }
    guard let count = number(trailer + 8), let top = number(trailer + 16),
      let table = number(trailer + 24), (1...8).contains(offsetSize),
      (1...8).contains(referenceSize), count <= bytes.count, top < count,
      table <= trailer, count * offsetSize <= trailer - table
    else { return nil }
    self.count = count
    self.top = top
    self.table = table
  }

  private func number(at position: Int, size: Int) -> Int {
    Int(
      clamping: bytes[position..<(position + size)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }

  /// Returns the objects that another one contains; none if it is not a collection, or is damaged.
  private func contents(of object: Int) -> (start: Int, count: Int) {
    var position = number(at: table + object * offsetSize, size: offsetSize)
    guard position < table, [0xA, 0xB, 0xC, 0xD].contains(bytes[position] >> 4) else {
      return (0, 0)
    }
    let isDictionary = bytes[position] >> 4 == 0xD
    var count = Int(bytes[position] & 15)
    position += 1
    if count == 15 {
      guard position < table, bytes[position] >> 4 == 1 else { return (0, 0) }
      let size = 1 << Int(bytes[position] & 15)
      guard size <= 8, position + 1 + size <= table else { return (0, 0) }
      count = number(at: position + 1, size: size)
      position += 1 + size
    }
    guard count <= (table - position) / referenceSize / (isDictionary ? 2 : 1) else {
      return (0, 0)
    }
    return (position, isDictionary ? 2 * count : count)
  }

  var rejectionReason: String? {
    struct Step {
      let object: Int
      let start: Int
      var left: Int
    }
    // For each checked object: its levels, and the number of objects that reading it yields.
    var levels = [Int](repeating: -1, count: count)
    var sizes = [Int](repeating: 1, count: count)
    var path: [Step] = []
    func enter(_ object: Int) {
      let (start, count) = contents(of: object)
      levels[object] = 0
      if count > 0 { path.append(Step(object: object, start: start, left: count)) }
    }
    var isOpen = [Bool](repeating: false, count: count)
    enter(top)
    while let step = path.last {
      isOpen[step.object] = true
      guard step.left > 0 else {
        isOpen[step.object] = false
        path.removeLast()
        if let parent = path.last?.object {
          levels[parent] = max(levels[parent], levels[step.object] + 1)
          sizes[parent] += sizes[step.object]
        }
        continue
      }
      path[path.count - 1].left -= 1
      let object = number(
        at: step.start + (step.left - 1) * referenceSize, size: referenceSize)
      guard object < count else { continue }
      if isOpen[object] { return "contains itself" }
      if levels[object] < 0 {
        enter(object)
        if path.last?.object == object, path.count <= PropertyListDepthLimit.most { continue }
      }
      if path.count + levels[object] > PropertyListDepthLimit.most {
        return PropertyListDepthLimit.tooDeep
      }
      levels[step.object] = max(levels[step.object], levels[object] + 1)
      sizes[step.object] += sizes[object]
      // Equal texts and numbers are one object, to which as many references lead as the list has bytes.
      if sizes[step.object] > max(64 * count, bytes.count, 1 << 20) {
        return "contains its parts too often"
      }
    }
    return nil
  }
}
