// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The parts of a value that are written on their own, and what ties a part to its value.
final class CBORDetachedChildren {
  var children: [(offset: Int, encoding: CBOREncodingState)] = []
  /// The fields of the open maps in which nested containers were requested out of order, by depth
  /// (`CBOREncodingState+Reopening.swift`).
  var indexes: [Int: CBORFieldIndex] = [:]
  var misuse: EncodingError?
  var parent: CBOREncodingState?
  let keyInParent: CBORKey?

  init(parent: CBOREncodingState? = nil, keyInParent: CBORKey? = nil) {
    self.parent = parent
    self.keyInParent = keyInParent
  }
}

// Parts that are written on their own, values that fail half-way, and paths.
extension CBOREncodingState {
  // MARK: Children

  /// A field whose value is written on its own.
  func detachField(_ name: String, _ depth: Int) -> CBOREncodingState {
    let place: Void? = try? field(name, depth)
    return detach(CBORKey(stringValue: name), isPlaced: place != nil)
  }

  /// An element that is written on its own.
  func detachElement(_ depth: Int) -> CBOREncodingState {
    let place: Void? = try? element(depth)
    return detach(CBORKey(intValue: max(0, current.count - 1)), isPlaced: place != nil)
  }

  private func detach(_ key: CBORKey, isPlaced: Bool) -> CBOREncodingState {
    let parts = madeParts()
    let child = CBOREncodingState(partOf: self, at: key)
    if child.rootDepth > Self.maximumDepth {
      parts.misuse = EncodingError.invalidValue(
        key,
        EncodingError.Context(
          codingPath: child.codingPath(at: child.rootDepth),
          debugDescription:
            "More than \(Self.maximumDepth) values and containers are nested in each "
            + "other; each case of an enum with associated values counts as two."))
    }
    if isPlaced { parts.children.append((bytes.count, child)) }
    return child
  }

  func madeParts() -> CBORDetachedChildren {
    if let parts { return parts }
    let made = CBORDetachedChildren()
    parts = made
    return made
  }

  /// Puts the children of the innermost frame into their places.
  func insertChildren(of parts: CBORDetachedChildren) throws {
    if let misuse = parts.misuse { throw misuse }
    parts.indexes[current.depth] = nil
    guard parts.children.count > current.firstChild else { return }
    let inserted = parts.children[current.firstChild...]
    parts.children.removeSubrange(current.firstChild...)
    let pieces = try inserted.map { ($0.offset, try $0.encoding.finish()) }
    var writer = takeWriter()
    let start = pieces.first?.0 ?? writer.bytes.count
    let tail = Array(writer.bytes[start...])
    writer.bytes.removeSubrange(start...)
    var from = start
    for (offset, piece) in pieces {
      writer.bytes.append(contentsOf: tail[from - start..<offset - start])
      writer.bytes.append(contentsOf: piece)
      from = offset
    }
    writer.bytes.append(contentsOf: tail[(from - start)...])
    putBack(&writer)
  }

  /// Undoes the references between parents and children of a value that failed.
  func abandon() {
    guard let parts else { return }
    parts.parent = nil
    for child in parts.children { child.encoding.abandon() }
    parts.children = []
    parts.indexes = [:]
  }

  // MARK: Failed parts

  /// The state to restore if a value throws in the middle and its container continues without it.
  struct Mark {
    let count: Int
    let frame: Frame
    let outerCount: Int
    let childCount: Int
  }

  @inline(__always)
  var mark: Mark {
    Mark(
      count: bytes.count, frame: current, outerCount: outer.count,
      childCount: parts?.children.count ?? 0)
  }

  /// Forgets what was written since the mark.
  func rewind(to mark: Mark) {
    write { $0.bytes.removeSubrange(mark.count...) }
    current = mark.frame
    outer.removeSubrange(mark.outerCount...)
    guard let parts else { return }
    parts.indexes.removeAll()
    for child in parts.children[mark.childCount...] { child.encoding.abandon() }
    parts.children.removeSubrange(mark.childCount...)
  }

  // MARK: Paths and errors

  /// The path to the frame at a depth, read from what was written.
  func codingPath(at depth: Int) -> [any CodingKey] {
    var path: [any CodingKey] = []
    if let parent = parts?.parent, let key = parts?.keyInParent {
      path = parent.codingPath(at: rootDepth - 1)
      path.append(key)
    }
    for frame in outer + [current] where frame.depth < depth {
      switch frame.kind {
      case .map where frame.count > 0:
        path.append(CBORKey(stringValue: CBORFieldSorter.name(bytes, frame.lastKey)))
      case .array:
        path.append(CBORKey(intValue: max(0, frame.count - 1)))
      default:
        break
      }
    }
    return path
  }

  @discardableResult
  func noteMisuse(_ depth: Int) -> EncodingError {
    let error = EncodingError.invalidValue(
      current.count,
      EncodingError.Context(
        codingPath: codingPath(at: depth),
        debugDescription: "The type's encode(to:) asked one encoder or field for two kinds of "
          + "container, wrote two single values, requested a nested container of a field that has "
          + "another value, or wrote to a container after its value was complete."))
    let parts = madeParts()
    parts.misuse = parts.misuse ?? error
    return error
  }
}
