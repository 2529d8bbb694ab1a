// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A key path that may go from one thread to another; every literal one may.
public typealias Path<Root, Value> = any (KeyPath<Root, Value> & Sendable)

/// A key path without its types, to compare with others.
// Sound: made from paths that are Sendable, and from such paths one behind the other.
struct AnyPath: @unchecked Sendable, Hashable {
  let path: AnyKeyPath

  /// A key path as it is written. A computed property has no name: its type stands for it, without
  /// the address, which is another in every process.
  var name: String {
    let text = "\(path)"
    guard let dot = text.firstIndex(of: ".") else { return text }
    let name = "\\" + text[dot...]
    guard name.contains("<computed 0x") else { return name }
    return name.split(separator: " ", omittingEmptySubsequences: false)
      .filter { !$0.hasPrefix("0x") }.joined(separator: " ")
  }
}

/// A key path from an object to a value.
// Sound: made from paths that are Sendable, and from such paths one behind the other.
struct PropertyPath<Object, Value>: @unchecked Sendable {
  let path: KeyPath<Object, Value>

  init(_ path: Path<Object, Value>) { self.path = path }
  private init(joined path: KeyPath<Object, Value>) { self.path = path }

  func appending<Inner>(_ inner: Path<Value, Inner>) -> PropertyPath<Object, Inner> {
    let inner: KeyPath<Value, Inner> = inner
    return PropertyPath<Object, Inner>(joined: path.appending(path: inner))
  }

  var erased: AnyPath { AnyPath(path: path) }
  var name: String { erased.name }
  @inline(__always) func value(of object: Object) -> Value { object[keyPath: path] }
}
