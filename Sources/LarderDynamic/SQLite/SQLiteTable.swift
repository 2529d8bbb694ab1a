// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A READER OF SQLITE FILES
//
// PersistentCacheKit stores one table in a file of a published, stable format. Reading it needs
// less code than a dependency on a library. By offset, big-endian:
//
//      0  "SQLite format 3" and a zero byte
//     16  page size     u16, 1: 65,536
//     18  journal mode  u8, 2: the database has a write-ahead log in another file
//     20  the number of unused bytes at the end of each page
//     56  text encoding u32, 0 or 1: UTF-8
//
// A page of a table begins with its kind (13 leaf, 5 interior); at 3 is the number of its cells, at
// 8 (interior: 12) their offsets. An interior cell is a page number and a key; the last child is at
// 8. A cell of a leaf is the length of its record, the row's number, the part of the record that
// fits, and the first page of a chain with the rest. A record is the length of its header, a type
// per column, the values. Page 1 has the file's header before the page header, and is the root of
// the table of tables.

/// A table of an SQLite file, for imports. The bytes are untrusted: reading ends or throws for all
/// contents.
package struct SQLiteTable {
  /// A value of a row.
  package enum Value: Equatable {
    case null
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])
  }

  /// The first bytes of every SQLite file.
  package static let magic = Array("SQLite format 3\u{0}".utf8)

  private let file: [UInt8]
  private let pageSize: Int
  private let usable: Int
  private let root: Int

  /// Finds a table in the bytes of a file.
  ///
  /// - Parameters:
  ///   - name: The name of the table.
  ///   - file: The bytes of the file.
  /// - Throws: ``DynamicObjectError`` if the file is damaged or has no such table.
  package init(_ name: String, in file: [UInt8]) throws(DynamicObjectError) {
    guard file.count >= 100, file.starts(with: Self.magic) else {
      throw Self.damaged("it is not an SQLite file")
    }
    let size = Int(file[16]) << 8 | Int(file[17])
    pageSize = size == 1 ? 65536 : size
    usable = pageSize - Int(file[20])
    guard pageSize >= 512, pageSize.nonzeroBitCount == 1, usable >= 480 else {
      throw Self.damaged("its page size is \(size)")
    }
    guard file[56] == 0, file[57] == 0, file[58] == 0, file[59] <= 1 else {
      throw Self.damaged("its texts are not UTF-8")
    }
    self.file = file
    var found: Int?
    try Self.walk(file, pageSize, usable, root: 1) { row throws(DynamicObjectError) in
      if row.count >= 4, row[0] == .text(Array("table".utf8)), row[1] == .text(Array(name.utf8)),
        case .integer(let page) = row[3]
      {
        found = Int(truncatingIfNeeded: page)
      }
    }
    guard let found else {
      throw DynamicObjectError(.invalidLine, "The file has no table \(name).")
    }
    root = found
  }

  /// Calls `body` with the columns of each row.
  ///
  /// - Throws: ``DynamicObjectError`` if the file is damaged; the errors of `body`.
  package func forEach(
    _ body: ([Value]) throws(DynamicObjectError) -> Void
  ) throws(DynamicObjectError) {
    try Self.walk(file, pageSize, usable, root: root, body)
  }

  private static func damaged(_ detail: String) -> DynamicObjectError {
    DynamicObjectError(
      .invalidLine, "The file is damaged or has an unsupported format: \(detail).")
  }

  // MARK: The tree

  private static func walk(
    _ file: [UInt8], _ pageSize: Int, _ usable: Int, root: Int,
    _ body: ([Value]) throws(DynamicObjectError) -> Void
  ) throws(DynamicObjectError) {
    // Each page is visited once: a cycle is damage, and must not cause an endless loop.
    var seen: Set<Int> = []
    var waiting = [root]
    while let number = waiting.popLast() {
      let page = try SQLitePage(file, pageSize, usable, number)
      guard seen.insert(number).inserted else { throw damaged("page \(number) is used twice") }
      let start = number == 1 ? 100 : 0
      let count = Int(try page.integer(at: start + 3, 2))
      switch try page.integer(at: start, 1) {
      case 5:
        // In reverse, because pages are taken from the end, so that rows are visited in their
        // order.
        waiting.append(Int(try page.integer(at: start + 8, 4)))
        for index in (0..<count).reversed() {
          let cell = Int(try page.integer(at: start + 12 + 2 * index, 2))
          waiting.append(Int(try page.integer(at: cell, 4)))
        }
      case 13:
        for index in 0..<count {
          let cell = Int(try page.integer(at: start + 8 + 2 * index, 2))
          try body(row(try page.record(at: cell, seen: &seen)))
        }
      case let kind: throw damaged("page \(number) is of kind \(kind)")
      }
    }
  }

  // MARK: Records

  private static func row(_ record: [UInt8]) throws(DynamicObjectError) -> [Value] {
    var position = 0
    let headerSize = try SQLitePage.variable(record, &position)
    guard headerSize >= 1, headerSize <= UInt64(record.count) else {
      throw damaged("a record's header is longer than the record")
    }
    var values: [Value] = []
    var place = Int(headerSize)
    while position < Int(headerSize) {
      let type = try SQLitePage.variable(record, &position)
      let length: Int
      switch type {
      case 0, 8, 9: length = 0
      case 1...4: length = Int(type)
      case 5: length = 6
      case 6, 7: length = 8
      case 12...:
        guard type / 2 <= UInt64(record.count) + 6 else {
          throw damaged("a value is longer than its record")
        }
        length = Int(type - 12) / 2
      default: throw damaged("a value of type \(type)")
      }
      guard place <= record.count - length else {
        throw damaged("a value is longer than its record")
      }
      values.append(value(type, record[place..<place + length]))
      place += length
    }
    return values
  }

  private static func value(_ type: UInt64, _ bytes: ArraySlice<UInt8>) -> Value {
    switch type {
    case 0: return .null
    case 8: return .integer(0)
    case 9: return .integer(1)
    case 1...6:
      let negative: Int64 = bytes.first.map { $0 >= 0x80 ? -1 : 0 } ?? 0
      return .integer(bytes.reduce(negative) { $0 << 8 | Int64($1) })
    case 7: return .real(Double(bitPattern: bytes.reduce(0) { $0 << 8 | UInt64($1) }))
    default: return type % 2 == 0 ? .blob(Array(bytes)) : .text(Array(bytes))
    }
  }

  /// A page of the file.
  private struct SQLitePage {
    private let file: [UInt8]
    private let range: Range<Int>
    private let pageSize: Int
    private let usable: Int

    init(
      _ file: [UInt8], _ pageSize: Int, _ usable: Int, _ number: Int
    ) throws(DynamicObjectError) {
      guard number >= 1, number <= file.count / pageSize else {
        throw damaged("page \(number) does not exist")
      }
      self.file = file
      self.pageSize = pageSize
      self.usable = usable
      range = (number - 1) * pageSize..<number * pageSize
    }

    func integer(at offset: Int, _ width: Int) throws(DynamicObjectError) -> UInt64 {
      guard offset >= 0, offset + width <= pageSize else {
        throw damaged("a field is outside of its page")
      }
      let start = range.lowerBound + offset
      return file[start..<start + width].reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Returns a number of one to nine bytes, and advances the position.
    static func variable(
      _ bytes: some RandomAccessCollection<UInt8>, _ position: inout Int
    ) throws(DynamicObjectError) -> UInt64 {
      var result: UInt64 = 0
      for index in 0..<9 {
        guard position < bytes.count else { throw damaged("a number has no end") }
        let byte = bytes[bytes.index(bytes.startIndex, offsetBy: position)]
        position += 1
        if index == 8 { return result << 8 | UInt64(byte) }
        result = result << 7 | UInt64(byte & 0x7F)
        if byte < 0x80 { return result }
      }
      return result
    }

    /// Returns the record of a leaf's cell, including its part on further pages.
    func record(at cell: Int, seen: inout Set<Int>) throws(DynamicObjectError) -> [UInt8] {
      let page = file[range]
      var position = cell
      guard cell >= 0, cell < usable else { throw damaged("a cell is outside of its page") }
      let length = try Self.variable(page, &position)
      _ = try Self.variable(page, &position)
      guard length <= UInt64(file.count) else { throw damaged("a record is longer than the file") }
      let size = Int(length)
      // The local part is chosen so that the rest fills complete pages, if that fits.
      var local = size
      if size > usable - 35 {
        let least = (usable - 12) * 32 / 255 - 23
        let best = least + (size - least) % (usable - 4)
        local = best <= usable - 35 ? best : least
      }
      guard position + local <= usable else { throw damaged("a cell is longer than its page") }
      var result = Array(
        page[(range.lowerBound + position)..<(range.lowerBound + position + local)])
      guard local < size else { return result }
      var next = Int(try integer(at: position + local, 4))
      while result.count < size {
        let overflow = try SQLitePage(file, pageSize, usable, next)
        guard seen.insert(next).inserted else { throw damaged("page \(next) is used twice") }
        let start = overflow.range.lowerBound + 4
        result += file[start..<start + min(usable - 4, size - result.count)]
        next = Int(try overflow.integer(at: 0, 4))
      }
      return result
    }
  }
}
