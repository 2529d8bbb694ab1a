// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The path to an item is found again by walking down to it: it is only needed for errors and for
// the few types that use it, so nothing is kept for it while decoding.
//
// The walk passes over all that comes before the item. Types that try one thing after the other,
// and ignore the errors, would make that quadratic in the size of a long array, so an error's path
// is given up after some steps and completed when the error turns out to be the one that `decode`
// ends with.
extension CBORDocument {
  /// The path to an item.
  func codingPath(to target: Int) -> [any CodingKey] {
    var steps = Int.max
    return codingPath(to: target, steps: &steps)
  }

  /// The path to an item for an error, as far as it is found in a few steps.
  func errorPath(to target: Int) -> [any CodingKey] {
    var steps = 100
    let path = codingPath(to: target, steps: &steps)
    if steps <= 0 { cutPath = (target, CodecError.pathText(path)) }
    return path
  }

  /// A failure with its whole path.
  func completed(_ failure: CodecError) -> CodecError {
    guard let cutPath, failure.codingPath == cutPath.text else { return failure }
    return CodecError(
      failure.code, operation: failure.operation, typeName: failure.typeName,
      codingPath: CodecError.pathText(codingPath(to: cutPath.target)),
      message: failure.message, underlyingError: failure.underlyingError)
  }

  private func codingPath(to target: Int, steps: inout Int) -> [any CodingKey] {
    var path: [any CodingKey] = []
    var item = untagged(0)
    while item < target, steps > 0 {
      guard let (key, child) = step(from: item, to: target, steps: &steps) else { break }
      path.append(key)
      item = target > child ? untagged(child) : child
    }
    return path
  }

  /// The child of a container in which the target is; `nil` if it is in none, or in a key.
  private func step(
    from container: Int, to target: Int, steps: inout Int
  ) -> (key: CBORKey, child: Int)? {
    let major = bytes[container] >> 5
    guard major == 4 || major == 5 else { return nil }
    let end = end(of: container)
    var position = 0
    var child = inside(container)
    while child < end, steps > 0 {
      steps -= 1
      let name = child
      if major == 5 {
        child = next(after: child)
        guard target >= child else { return nil }
      }
      let after = next(after: child)
      if target < after {
        let key = major == 5 ? codingKey(at: name) : CBORKey(intValue: position)
        return (key ?? CBORKey(stringValue: "?"), child)
      }
      position += 1
      child = after
    }
    return nil
  }
}

/// A coding key of whatever name.
struct CBORKey: CodingKey {
  let stringValue: String
  let intValue: Int?

  init(stringValue: String) {
    self.stringValue = stringValue
    self.intValue = nil
  }

  init(intValue: Int) {
    self.stringValue = String(intValue)
    self.intValue = intValue
  }

  static let superKey = CBORKey(stringValue: "super")
}
