// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The messages between the fuzzer of declarations and its programs: one request and one answer a line.

/// A value of a property, without its type.
enum Value: Codable, Hashable, Sendable {
  case null
  case int(Int)
  case double(Double)
  case bool(Bool)
  case text(String)
  case date(Double)
  case uuid(String)
  case decimal(String)
  case data([UInt8])
  case list([Value])
  case map([String: Value])
  /// In the model: the rules allow several values.
  case any
}

struct Request: Codable, Sendable {
  enum Operation: String, Codable, Sendable {
    case save, edit, remove, object, all, probe, order, update, set, removeWhere, prepare, migrate,
      verify
  }
  var operation: Operation
  var type = 0
  var id = 0
  var values: [String: Value] = [:]
  /// The path of a property, and the condition on it: `a ==`.
  var probe = ""
  var value = Value.null
  /// A property that is changed, and its new value.
  var field = ""
  var new = Value.null
  var descending = false
  var limit = 0
}

struct Answer: Codable, Sendable {
  struct Failure: Codable, Sendable {
    var code: String
    var message: String
    var ids: [String]
  }
  var failure: Failure?
  /// The objects as the program sees them.
  var views: [Int: [String: Value]] = [:]
  var unreadable: [Int] = []
  /// The ids of the objects that an operation matched, and the number that it returned.
  var ids: [Int] = []
  var count = 0
  /// The results that contradict the documented rules.
  var faults: [String] = []
}
