// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A reader of the lines of a stream of bytes.
package struct LineReader {
  private let read: () throws -> [UInt8]
  private var buffer: [UInt8] = []
  private var start = 0
  private var isAtEnd = false
  /// The number of the last returned line, from 1.
  package private(set) var number = 0
  /// The number of bytes returned so far, including the ends of lines.
  package private(set) var position = 0

  /// The maximum length of a line in bytes. A store cannot contain a larger object.
  package static let maximumLength = 1 << 30

  /// Creates a reader.
  ///
  /// - Parameter read: Returns the next bytes, or an empty array at the end.
  package init(read: @escaping () throws -> [UInt8]) { self.read = read }

  /// Returns the next line without its end, or `nil` after the last line.
  ///
  /// - Throws: ``DynamicObjectError`` if the line is longer than the limit; the errors of `read`.
  package mutating func next() throws -> ArraySlice<UInt8>? {
    var searched = start
    while true {
      if let end = buffer[searched...].firstIndex(of: 0x0A) {
        let line = buffer[start..<end]
        number += 1
        position += line.count + 1
        start = end + 1
        return line
      }
      if isAtEnd {
        let line = buffer[start...]
        start = buffer.count
        guard !line.isEmpty else { return nil }
        number += 1
        position += line.count
        return line
      }
      guard buffer.count - start <= Self.maximumLength else {
        throw DynamicObjectError(
          .invalidLine, "The line has more than \(Self.maximumLength) bytes.", line: number + 1)
      }
      buffer.removeFirst(start)
      start = 0
      searched = buffer.count
      let piece = try read()
      isAtEnd = piece.isEmpty
      buffer += piece
    }
  }
}
