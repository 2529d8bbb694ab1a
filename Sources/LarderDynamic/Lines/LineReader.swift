// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Cuts what is read in pieces into lines.
package struct LineReader {
  private let read: () throws -> [UInt8]
  private var buffer: [UInt8] = []
  private var start = 0
  private var isAtEnd = false
  /// The number of the line given last, from 1.
  package private(set) var number = 0
  /// Bytes given so far, with the ends of lines.
  package private(set) var position = 0

  /// A longer line is no object: the store holds none of that size.
  package static let maximumLength = 1 << 30

  /// - Parameter read: The next piece; empty: there is no more.
  package init(read: @escaping () throws -> [UInt8]) { self.read = read }

  /// The next line, without its end; `nil`: there is none.
  ///
  /// - Throws: ``DynamicObjectError`` for a line beyond the limit; what `read` throws.
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
