// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// HOW A VALUE IS WRITTEN
//
// All of a value goes into one buffer, front to back. A container's head is one byte that is put
// right when the container is closed, which is when the `encode(to:)` that opened it returns: the
// count is known only then, and so is whether the fields came in bytewise order of their names. If
// they did not, the container is sorted in place, once.
//
// A frame is the place of one value: what is being written there, and where it began. Frames nest
// as the calls of `encode(to:)` do, so the innermost is in `current` and the others in `outer`.
//
// Containers that are requested without a call of `encode(to:)` (`nestedContainer`, `superEncoder`)
// may be written to in any order while the outer container continues. Each gets a separate buffer,
// a child, which is inserted when the frame is closed in which it was requested.
//
// A writer moves the buffer out, writes, and moves it back. A mutable property of a class that
// is accessed across a call costs a check at run time, more than the writing of a small field does;
// an exchange costs nothing.

/// The state that all encoders and containers of one value share.
package final class CBOREncodingState {
  /// Values in each other, at most. The decoder's limit is a little higher because a value may need
  /// tags and containers around it.
  package static let maximumDepth = CBORScanner.maximumDepth - 4

  enum Kind: UInt8 {
    case empty
    case map
    case array
    case single
  }

  struct Frame {
    var depth: Int
    var start = 0
    var count = 0
    /// The offset of the name of the last field.
    var lastKey = 0
    /// The first child requested in this frame.
    var firstChild = 0
    var kind = Kind.empty
    var inOrder = true
  }

  private var writer = CBORWriter()
  var current: Frame
  var outer: [Frame] = []
  let rootDepth: Int
  let userInfo: [CodingUserInfoKey: any Sendable]
  /// The log of the fields, if they are recorded.
  let log: CBORFieldLog?

  /// The state that only values with children or errors need, kept apart from the rest.
  var parts: CBORDetachedChildren?

  /// The state of a whole value.
  init(userInfo: [CodingUserInfoKey: any Sendable], log: CBORFieldLog? = nil) {
    rootDepth = 0
    current = Frame(depth: 0)
    self.userInfo = userInfo
    self.log = log
  }

  /// The state of a part that is written on its own.
  init(partOf parent: CBOREncodingState, at key: CBORKey) {
    rootDepth = parent.current.depth + 1
    current = Frame(depth: rootDepth)
    userInfo = parent.userInfo
    log = parent.log
    parts = CBORDetachedChildren(parent: parent, keyInParent: key)
  }

  // MARK: The buffer

  /// Moves the buffer out; the caller must move it back before any other call.
  @inline(__always)
  func takeWriter() -> CBORWriter {
    var taken = CBORWriter()
    swap(&taken, &writer)
    return taken
  }

  @inline(__always)
  func putBack(_ written: inout CBORWriter) {
    swap(&written, &writer)
  }

  @inline(__always)
  func write(_ body: (inout CBORWriter) -> Void) {
    var writer = takeWriter()
    body(&writer)
    putBack(&writer)
  }

  /// The bytes written so far.
  var bytes: [UInt8] { writer.bytes }

  // MARK: Frames

  /// Writes a value in a new frame.
  func nest<Value: Encodable>(_ value: Value) throws {
    let depth = current.depth + 1
    guard depth <= Self.maximumDepth else {
      throw CodecError(
        .tooDeep, operation: .encode, typeName: "\(Value.self)",
        message:
          "More than \(Self.maximumDepth) values are nested in each other; each case of an enum "
          + "with associated values counts as two. Store the parts under separate keys.")
    }
    // Nothing is ever written to the outermost frame, so it need not be kept: a flat value then has
    // no need of the array.
    if depth > 1 { outer.append(current) }
    current = Frame(depth: depth, firstChild: parts?.children.count ?? 0)
    try value.encode(to: CBORItemEncoder(state: self, depth: depth))
    try close()
    current = depth > 1 ? outer.removeLast() : Frame(depth: 0)
  }

  /// Makes the frame a map or an array; repeating the same call has no effect.
  func open(_ kind: Kind, _ depth: Int) {
    guard depth == current.depth, current.kind == .empty else {
      if depth != current.depth || kind != current.kind { noteMisuse(depth) }
      return
    }
    current.kind = kind
    var writer = takeWriter()
    current.start = writer.bytes.count
    writer.bytes.append(kind == .map ? 0xa0 : 0x80)
    putBack(&writer)
  }

  /// Puts the finished frame's head right, with its children in and its fields in order.
  private func close() throws {
    if let parts { try insertChildren(of: parts) }
    let kind = current.kind
    guard kind != .single else { return }
    let start = current.start
    var count = current.count
    var writer = takeWriter()
    if kind == .empty {
      // A value that wrote nothing has no fields.
      writer.bytes.append(0xa0)
      count = 0
    } else {
      if kind == .map, !current.inOrder {
        count = CBORFieldSorter.sort(&writer.bytes, from: start + 1)
      }
      if count < 24 {
        writer.bytes[start] |= UInt8(truncatingIfNeeded: count)
      } else {
        var head = CBORWriter()
        head.head(writer.bytes[start], UInt64(count))
        writer.bytes.replaceSubrange(start...start, with: head.bytes)
      }
    }
    putBack(&writer)
  }

  /// Returns the bytes after everything was written.
  func finish() throws -> [UInt8] {
    if rootDepth > 0 { try close() }
    if let misuse = parts?.misuse { throw misuse }
    parts?.parent = nil
    return takeWriter().bytes
  }

  // MARK: Places

  /// Begins a field: writes its name, notes whether it comes in order, and writes what `body` does.
  @inline(__always)
  func field(
    _ name: String, _ depth: Int, _ body: (inout CBORWriter) -> Void = { _ in }
  ) throws {
    guard depth == current.depth, current.kind == .map else { throw noteMisuse(depth) }
    var writer = takeWriter()
    let start = writer.bytes.count
    writer.write(text: name)
    if current.count > 0, current.inOrder {
      current.inOrder = CBORFieldSorter.precedes(writer.bytes, current.lastKey, start)
    }
    current.lastKey = start
    current.count += 1
    body(&writer)
    putBack(&writer)
  }

  /// Begins an element, and writes what `body` does.
  @inline(__always)
  func element(_ depth: Int, _ body: (inout CBORWriter) -> Void = { _ in }) throws {
    guard depth == current.depth, current.kind == .array else { throw noteMisuse(depth) }
    current.count += 1
    write(body)
  }

  /// Begins the one value of a frame without a container, and writes what `body` does.
  @inline(__always)
  func single(_ depth: Int, _ body: (inout CBORWriter) -> Void = { _ in }) throws {
    guard depth == current.depth, current.kind == .empty else { throw noteMisuse(depth) }
    current.kind = .single
    write(body)
  }

  /// The number of elements of an array so far.
  func count(at depth: Int) -> Int {
    if depth == current.depth { return current.count }
    return outer.first { $0.depth == depth }?.count ?? 0
  }
}
