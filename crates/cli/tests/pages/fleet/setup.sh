# The example of a hosting company, with 20 containers of 5,000, and another version of it.
mkdir rules
for file in "$EXAMPLES"/hosting/*.conf; do
    sed 's/range(1, 5001)/range(1, 21)/' "$file" > "rules/${file##*/}"
done
echo "const Program = \"$(command -v warren-echo)\"" > rules/00-program.conf
cp -r rules checkout
sed -i 's/CURRENCY = "EUR"/CURRENCY = "CHF"/' checkout/40-exceptions.conf
