// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// DATES OF KEYS AS TEXT
//
// A date is a number of seconds since 2001. Its text is the calendar date in UTC, with as many
// digits after the point as identify the number, at most nine: `2026-01-31T12:00:00Z`, `…:00.25Z`.
// Where nine digits do not, and outside of the years 0 to 9999, the text is the number itself. Both
// are read.

/// The text form of a date's seconds since 2001.
enum DateText {
  private static let secondsToReference: Int64 = 978_307_200

  /// The text that ``seconds(_:)`` reads back as the same number.
  static func text(_ seconds: Double) -> String {
    let whole = seconds.rounded(.down)
    guard whole > -63_113_904_000, whole < 252_455_616_000 else { return String(seconds) }
    var scale: Int64 = 1
    for digits in 0...9 {
      let fraction = Int64(((seconds - whole) * Double(scale)).rounded())
      if fraction < scale, number(Int64(whole), fraction, digits) == seconds {
        return text(Int64(whole), fraction, digits)
      }
      scale *= 10
    }
    return String(seconds)
  }

  /// Returns the seconds since 2001 of a text, or `nil` if it is not a date.
  static func seconds(_ text: String) -> Double? {
    if let seconds = Double(text) { return seconds }
    let bytes = Array(text.utf8)
    guard bytes.count >= 20, bytes.last == UInt8(ascii: "Z") else { return nil }
    let separators: [(Int, Character)] = [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":")]
    guard separators.allSatisfy({ bytes[$0.0] == $0.1.asciiValue }),
      let year = integer(bytes[0..<4]), let month = integer(bytes[5..<7]),
      let day = integer(bytes[8..<10]), let hour = integer(bytes[11..<13]),
      let minute = integer(bytes[14..<16]), let second = integer(bytes[17..<19]),
      hour < 24, minute < 60, second < 60
    else { return nil }
    let days = daysSince1970(year, month, day)
    guard calendarDate(days) == (year, month, day) else { return nil }
    let whole = days * 86_400 + hour * 3_600 + minute * 60 + second - secondsToReference
    if bytes.count == 20 { return Double(whole) }
    guard bytes[19] == UInt8(ascii: "."), (22...30).contains(bytes.count),
      let fraction = integer(bytes[20..<bytes.count - 1])
    else { return nil }
    return number(whole, fraction, bytes.count - 21)
  }

  private static func integer(_ digits: ArraySlice<UInt8>) -> Int64? {
    var number: Int64 = 0
    for digit in digits {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
      number = number * 10 + Int64(digit - UInt8(ascii: "0"))
    }
    return number
  }

  /// The number nearest to whole seconds and a decimal fraction above them.
  private static func number(_ whole: Int64, _ fraction: Int64, _ digits: Int) -> Double? {
    guard fraction > 0 else { return Double(whole) }
    guard whole < 0 else { return Double("\(whole).\(padded(fraction, digits))") }
    let scale = (0..<digits).reduce(Int64(1)) { scale, _ in scale * 10 }
    return Double("-\(-(whole + 1)).\(padded(scale - fraction, digits))")
  }

  private static func text(_ whole: Int64, _ fraction: Int64, _ digits: Int) -> String {
    let seconds = whole + secondsToReference
    let days = seconds >= 0 ? seconds / 86_400 : -((86_399 - seconds) / 86_400)
    let rest = seconds - days * 86_400
    let date = calendarDate(days)
    return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))T"
      + "\(padded(rest / 3_600, 2)):\(padded(rest / 60 % 60, 2)):\(padded(rest % 60, 2))"
      + (digits == 0 ? "Z" : ".\(padded(fraction, digits))Z")
  }

  private static func padded(_ number: Int64, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }

  // The proleptic Gregorian calendar, in eras of 400 years that begin with March.

  private static func daysSince1970(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let year = month <= 2 ? year - 1 : year
    let era = (year >= 0 ? year : year - 399) / 400
    let yearOfEra = year - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private static func calendarDate(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra =
      (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
  }
}
