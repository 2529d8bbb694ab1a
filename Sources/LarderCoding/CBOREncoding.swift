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
// A frame is the place of one value: what is being written there, and where it began. Frames nest as
// the calls of `encode(to:)` do, so the innermost is in `current` and the others in `outer`.
//
// Containers that are asked for without a call of `encode(to:)` (`nestedContainer`, `superEncoder`)
// may be written to in any order while the outer container goes on. They get a buffer of their own,
// a child, which is inserted when the frame is closed in which it was asked for.

/// The state that all encoders and containers of one value share.
final class CBOREncoding {
  /// Values in each other, at most. The decoder's limit is a little higher because a value may need
  /// tags and containers of its own around it.
  static let maximumDepth = CBORScanner.maximumDepth - 4

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
    /// Where the name of the last field begins.
    var lastKey = 0
    /// The first child asked for in this frame.
    var firstChild = 0
    var kind = Kind.empty
    var inOrder = true
  }

  /// Where to go back to if a value throws half-way and its container goes on without it.
  struct Mark {
    let count: Int
    let frame: Frame
    let outerCount: Int
    let childCount: Int
  }

  @exclusivity(unchecked) var writer = CBORWriter()
  let userInfo: [CodingUserInfoKey: any Sendable]
  let rootDepth: Int
  @exclusivity(unchecked) private(set) var current: Frame
  @exclusivity(unchecked) private var outer: [Frame] = []
  @exclusivity(unchecked) private var children: [(offset: Int, state: CBOREncoding)] = []
  private var parent: CBOREncoding?
  private let keyInParent: CBORKey?
  @exclusivity(unchecked) private var misuse: EncodingError?

  init(userInfo: [CodingUserInfoKey: any Sendable]) {
    self.userInfo = userInfo
    rootDepth = 0
    current = Frame(depth: 0)
    keyInParent = nil
    writer.reserve(256)
  }

  private init(parent: CBOREncoding, key: CBORKey) {
    userInfo = parent.userInfo
    rootDepth = parent.current.depth + 1
    current = Frame(depth: rootDepth)
    self.parent = parent
    keyInParent = key
  }

  // MARK: Frames

  /// Writes a value in a frame of its own.
  func nest<Value: Encodable>(_ value: Value) throws {
    let depth = current.depth + 1
    guard depth <= Self.maximumDepth else {
      throw CodingFailure(
        .tooDeep, operation: .encode, typeName: "\(Value.self)",
        message: "More than \(Self.maximumDepth) values are nested in each other. "
          + "Store the parts under keys of their own.")
    }
    // Nothing is ever written to the outermost frame, so it need not be kept: a flat value then has
    // no need of the array.
    if depth > 1 { outer.append(current) }
    current = Frame(depth: depth, firstChild: children.count)
    try value.encode(to: CBORItemEncoder(state: self, depth: depth))
    try close()
    current = depth > 1 ? outer.removeLast() : Frame(depth: 0)
  }

  /// Makes the frame a map or an array; asking twice for the same is fine.
  func open(_ kind: Kind, _ depth: Int) {
    guard depth == current.depth, current.kind == .empty else {
      if depth != current.depth || kind != current.kind { noteMisuse(depth) }
      return
    }
    current.kind = kind
    current.start = writer.bytes.count
    writer.bytes.append(kind == .map ? 0xa0 : 0x80)
  }

  /// Puts the finished frame's head right, with its children in and its fields in order.
  private func close() throws {
    if let misuse { throw misuse }
    if children.count > current.firstChild { try insertChildren() }
    switch current.kind {
    case .single:
      return
    case .empty:
      // A value that wrote nothing has no fields.
      writer.bytes.append(0xa0)
      return
    case .map:
      if !current.inOrder {
        current.count = CBORFieldSorter.sort(&writer.bytes, from: current.start + 1)
      }
    case .array:
      break
    }
    if current.count < 24 {
      writer.bytes[current.start] |= UInt8(truncatingIfNeeded: current.count)
    } else {
      var head = CBORWriter()
      head.head(writer.bytes[current.start], UInt64(current.count))
      writer.bytes.replaceSubrange(current.start...current.start, with: head.bytes)
    }
  }

  /// The bytes, when everything is written.
  func finish() throws -> [UInt8] {
    if rootDepth > 0 { try close() }
    if let misuse { throw misuse }
    return writer.bytes
  }

  // MARK: Places

  /// Begins a field: writes its name and notes whether it comes in order.
  @inline(__always)
  func beginField(_ name: String, _ depth: Int) throws {
    guard depth == current.depth, current.kind == .map else { throw noteMisuse(depth) }
    let start = writer.bytes.count
    writer.write(text: name)
    if current.count > 0, current.inOrder {
      current.inOrder = CBORFieldSorter.precedes(writer.bytes, current.lastKey, start)
    }
    current.lastKey = start
    current.count += 1
  }

  /// Begins an element.
  @inline(__always)
  func beginElement(_ depth: Int) throws {
    guard depth == current.depth, current.kind == .array else { throw noteMisuse(depth) }
    current.count += 1
  }

  /// Begins the one value of a frame without a container.
  @inline(__always)
  func beginSingle(_ depth: Int) throws {
    guard depth == current.depth, current.kind == .empty else { throw noteMisuse(depth) }
    current.kind = .single
  }

  /// How many elements an array has so far.
  func count(at depth: Int) -> Int {
    depth == current.depth ? current.count : outer.first { $0.depth == depth }?.count ?? 0
  }

  var mark: Mark {
    Mark(
      count: writer.bytes.count, frame: current, outerCount: outer.count,
      childCount: children.count)
  }

  /// Forgets what was written since the mark.
  func rewind(to mark: Mark) {
    writer.bytes.removeSubrange(mark.count...)
    current = mark.frame
    outer.removeSubrange(mark.outerCount...)
    for child in children[mark.childCount...] { child.state.abandon() }
    children.removeSubrange(mark.childCount...)
  }

  // MARK: Children

  /// A field whose value is written on its own.
  func detachField(_ name: String, _ depth: Int) -> CBOREncoding {
    let place: Void? = try? beginField(name, depth)
    return detach(CBORKey(stringValue: name), isPlaced: place != nil)
  }

  /// An element that is written on its own.
  func detachElement(_ depth: Int) -> CBOREncoding {
    let place: Void? = try? beginElement(depth)
    return detach(CBORKey(intValue: max(0, current.count - 1)), isPlaced: place != nil)
  }

  private func detach(_ key: CBORKey, isPlaced: Bool) -> CBOREncoding {
    let child = CBOREncoding(parent: self, key: key)
    if child.rootDepth > Self.maximumDepth {
      misuse = EncodingError.invalidValue(
        key,
        EncodingError.Context(
          codingPath: child.codingPath(at: child.rootDepth),
          debugDescription: "The containers are nested too deeply."))
    }
    if isPlaced { children.append((writer.bytes.count, child)) }
    return child
  }

  private func insertChildren() throws {
    let inserted = children[current.firstChild...]
    var offset = inserted.first?.offset ?? writer.bytes.count
    let start = offset
    var tail: [UInt8] = []
    for child in inserted {
      tail.append(contentsOf: writer.bytes[offset..<child.offset])
      tail.append(contentsOf: try child.state.finish())
      child.state.parent = nil
      offset = child.offset
    }
    tail.append(contentsOf: writer.bytes[offset...])
    writer.bytes.replaceSubrange(start..., with: tail)
    children.removeSubrange(current.firstChild...)
  }

  /// Undoes the references between parents and children of a value that failed.
  func abandon() {
    parent = nil
    for child in children { child.state.abandon() }
    children = []
  }

  // MARK: Paths and errors

  /// The path to the frame at a depth, read from what was written.
  func codingPath(at depth: Int) -> [any CodingKey] {
    var path: [any CodingKey] = []
    if let parent, let keyInParent {
      path = parent.codingPath(at: rootDepth - 1)
      path.append(keyInParent)
    }
    for frame in outer + [current] where frame.depth < depth {
      switch frame.kind {
      case .map where frame.count > 0:
        path.append(CBORKey(stringValue: CBORFieldSorter.name(writer.bytes, frame.lastKey)))
      case .array:
        path.append(CBORKey(intValue: max(0, frame.count - 1)))
      default:
        break
      }
    }
    return path
  }

  @discardableResult
  private func noteMisuse(_ depth: Int) -> EncodingError {
    let error = EncodingError.invalidValue(
      current.count,
      EncodingError.Context(
        codingPath: codingPath(at: depth),
        debugDescription: "The type's encode(to:) asked one encoder for two kinds of container, "
          + "wrote two single values, or wrote to a container after its value was complete."))
    misuse = misuse ?? error
    return error
  }
}
