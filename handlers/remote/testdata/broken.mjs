export default function (changes {}
