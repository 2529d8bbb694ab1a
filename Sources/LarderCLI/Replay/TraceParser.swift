// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding

/// The format of a trace.
enum TraceFormat: String, ExpressibleByArgument, CaseIterable {
  /// `KEY` or `KEY SIZE`.
  case text
  /// `timestamp,key,size` and further columns, as libCacheSim reads them.
  case csv
  /// `start count ignored request`: an access to each key from `start`.
  case arc
}

/// The parser of the lines of a trace.
struct TraceParser {
  private let file: String
  private var format: TraceFormat?
  private var trace = Trace()
  private var numbers: [[UInt8]: Int32] = [:]
  private var isFirst = true

  /// Creates a parser.
  ///
  /// - Parameters:
  ///   - file: The name of the trace in errors.
  ///   - format: The format, or nil to detect text or CSV by the first line.
  init(file: String, format: TraceFormat?) {
    self.file = file
    self.format = format
  }

  /// The most keys of one line of the format `arc`.
  private static let longestRun = 1_000_000
  private static let mostAccesses = Int(Int32.max)

  /// Reads a line.
  ///
  /// - Throws: ``ToolError`` with the number of a line that is not of the format.
  mutating func add(_ line: ArraySlice<UInt8>, number: Int) throws(ToolError) {
    var line = line
    if line.last == 0x0D { line.removeLast() }
    if line.first == UInt8(ascii: "#") { return }
    if line.allSatisfy(Self.isSpace) { throw invalid("The line is empty.", number) }
    let format = format ?? (line.contains(UInt8(ascii: ",")) ? .csv : .text)
    self.format = format
    defer { isFirst = false }
    switch format {
    case .text: try addText(line, number)
    case .csv: try addCSV(line, number)
    case .arc: try addRun(line, number)
    }
  }

  /// Returns the trace.
  ///
  /// - Throws: ``ToolError`` if it contains no access.
  func finish() throws(ToolError) -> Trace {
    guard trace.count > 0 else {
      throw ToolError("emptyTrace", "\(file) contains no access. Pass a trace with at least one.")
    }
    return trace
  }

  // MARK: Formats

  private mutating func addText(_ line: ArraySlice<UInt8>, _ number: Int) throws(ToolError) {
    let words = line.split(whereSeparator: Self.isSpace)
    guard words.count <= 2 else {
      throw invalid("Expected KEY or KEY SIZE, found \(words.count) words.", number)
    }
    let size = words.count == 2 ? try size(words[1], number) : nil
    try append(words[0], size, number)
  }

  private mutating func addCSV(_ line: ArraySlice<UInt8>, _ number: Int) throws(ToolError) {
    let columns = line.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
      .map(Self.trimmed)
    guard columns.count >= 3 else {
      throw invalid("Expected timestamp,key,size, found \(columns.count) columns.", number)
    }
    // The first line may contain the names of the columns.
    if isFirst, Double(Self.text(columns[0])) == nil, Self.integer(columns[2]) == nil { return }
    guard !columns[1].isEmpty else { throw invalid("The key is empty.", number) }
    try append(columns[1], size(columns[2], number), number)
  }

  private mutating func addRun(_ line: ArraySlice<UInt8>, _ number: Int) throws(ToolError) {
    let words = line.split(whereSeparator: Self.isSpace).map(Self.integer)
    guard words.count == 4, let start = words[0], let count = words[1], words[2] != nil,
      words[3] != nil
    else { throw invalid("Expected four integers: start, count, ignored, request.", number) }
    guard start >= 0, (1...Self.longestRun).contains(count), start < Int.max - count else {
      throw invalid(
        "The run of \(count) keys from \(start) is outside the range of 1 to "
          + "\(TextLayout.grouped(Self.longestRun)) keys from 0.", number)
    }
    for key in start..<start + count { try append(Array("\(key)".utf8)[...], nil, number) }
  }

  private mutating func append(
    _ key: ArraySlice<UInt8>, _ size: Int32?, _ number: Int
  ) throws(ToolError) {
    if trace.count > 0, trace.hasSizes != (size != nil) {
      throw invalid(
        size == nil
          ? "The line has no size, but earlier lines have one."
          : "The line has a size, but earlier lines have none.", number)
    }
    guard trace.count < Self.mostAccesses else {
      throw invalid("The trace has more than \(Self.mostAccesses) accesses.", number)
    }
    let next = Int32(numbers.count)
    // One search of the dictionary for both cases.
    let index = { (known: inout Int32) in known }(&numbers[Array(key), default: next])
    trace.append(index, size: size)
  }

  // MARK: Words

  private func size(_ word: ArraySlice<UInt8>, _ number: Int) throws(ToolError) -> Int32 {
    guard let size = Self.integer(word) else {
      throw invalid("The size \"\(Self.shown(word))\" is not an integer.", number)
    }
    guard (0...Trace.largestSize).contains(size) else {
      throw invalid("The size \(size) is outside the range of 0 to 1 GiB.", number)
    }
    return Int32(size)
  }

  private func invalid(_ message: String, _ number: Int) -> ToolError {
    ToolError(
      "invalidLine", "\(file), line \(number): \(message)",
      details: [("file", .text(file)), ("line", .unsigned(UInt64(number)))])
  }

  private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

  private static func trimmed(_ word: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var word = word.drop(while: isSpace)
    while let last = word.last, isSpace(last) { word.removeLast() }
    return word
  }

  private static func text(_ word: ArraySlice<UInt8>) -> String {
    String(decoding: word, as: UTF8.self)
  }

  private static func shown(_ word: ArraySlice<UInt8>) -> String {
    TextLayout.shortened(text(word), to: 40)
  }

  private static func integer(_ word: ArraySlice<UInt8>) -> Int? {
    // Int accepts a plus sign as well; traces contain none.
    word.first == UInt8(ascii: "+") ? nil : Int(text(word))
  }
}
#endif
